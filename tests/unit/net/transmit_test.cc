#include "test_eal.h"
namespace itif::net::test {
TEST_F(EalTest, Starts) {
  rte_pktmbuf_free(mbuf_of(from_hex("00 11")));
}
}  // namespace itif::net::test
