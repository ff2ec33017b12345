#include "net/address.h"

#include <gtest/gtest.h>

namespace itif::net {
namespace {

TEST(Address, ParsesWithAndWithoutPrefix) {
  EXPECT_EQ(format_ipv4(*parse_ipv4("198.18.0.1")), "198.18.0.1");
  EXPECT_EQ(format_ipv4(*parse_ipv4("198.18.0.1/15")), "198.18.0.1");
  EXPECT_EQ(format_ipv6(*parse_ipv6("FD00:0::1/64")), "fd00::1");
}

TEST(Address, RefusesMalformedAndNonHostAddresses) {
  for (const char* text :
       {"", "198.18.0", "198.18.0.1/33", "198.18.0.1/", "198.18.0.1/x", "1.2.3.4 ", "198.18.0.1/-1",
        "0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "fd00::1"}) {
    const auto result = parse_ipv4(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_NE(result.error().message.find(std::string("'") + text + "'"), std::string::npos);
  }
  for (const char* text : {"", "fd00::1/129", "::", "::1", "ff02::1", "198.18.0.1", "fd00:::1"})
    EXPECT_FALSE(parse_ipv6(text)) << text;
}

TEST(Address, LinkLocalIsTheModifiedEui64) {
  EXPECT_EQ(format_ipv6(link_local({0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde})),
            "fe80::3656:78ff:fe9a:bcde");
}

TEST(Address, LocalAddressesAreUniqueAndIncludeLinkLocal) {
  const MacAddress mac = {2, 0, 0, 0, 0, 1};
  const auto local =
      make_local_addresses(mac, {{"198.18.0.1", "198.18.0.1/24"}, {"fd00::1"}, 9009, 4094});
  ASSERT_TRUE(local);
  EXPECT_EQ(local->ipv4.size(), 1u);
  EXPECT_EQ(local->ipv6.size(), 2u);
  EXPECT_TRUE(local->owns(*parse_ipv6("fe80::ff:fe00:1")));
  EXPECT_FALSE(local->owns(*parse_ipv6("fe80::ff:fe00:2")));
  EXPECT_FALSE(make_local_addresses(mac, {{}, {}, 0, 0}));
  EXPECT_FALSE(make_local_addresses(mac, {{}, {}, 9009, 4095}));
  EXPECT_FALSE(make_local_addresses(mac, {{"nonsense"}, {}, 9009, 0}));
}

}  // namespace
}  // namespace itif::net
