// The arguments with which two processes start EAL beside each other.
#include "net/devices.h"

#include <gtest/gtest.h>

namespace itif::net {
namespace {

using Words = std::vector<std::string>;

TEST(Devices, AreTakenOutOfTheArguments) {
  const DeviceArgs split =
      split_devices({"--lcores=0,1", "--vdev=net_a,iface=x", "--vdev", "net_b", "--no-pci"});
  EXPECT_EQ(split.eal_args, (Words{"--lcores=0,1", "--no-pci"}));
  EXPECT_EQ(split.devices, (Words{"net_a,iface=x", "net_b"}));
}

TEST(Devices, NicsAreTakenOutInEverySpelling) {
  const DeviceArgs split =
      split_devices({"-a", "0000:01:00.0,x=1", "-a0000:02:00.0", "--allow=0000:03:00.0", "-b",
                     "0000:04:00.0", "-m", "64"});
  EXPECT_EQ(split.devices, (Words{"0000:01:00.0,x=1", "0000:02:00.0", "0000:03:00.0"}));
  EXPECT_EQ(split.eal_args, (Words{"-m", "64", "--allow=0000:00:00.0"}))
      << "EAL must open no NIC of the other process";
}

TEST(Devices, FilePrefix) {
  EXPECT_EQ(file_prefix({"--no-huge"}), "rte");
  EXPECT_EQ(file_prefix({"--file-prefix=a"}), "a");
  EXPECT_EQ(file_prefix({"--file-prefix", "b", "--no-huge"}), "b");
  EXPECT_EQ(with_file_prefix({"--file-prefix", "b", "--no-huge"}, "c"),
            (Words{"--no-huge", "--file-prefix=c"}));
  EXPECT_EQ(with_file_prefix({"--file-prefix=b"}, "c"), (Words{"--file-prefix=c"}));
}

TEST(Devices, AMemifKeepsItsAddress) {
  const MacAddress mac = {2, 0, 0, 0, 0, 9};
  EXPECT_EQ(with_mac("net_memif0,role=server", mac),
            "net_memif0,role=server,mac=02:00:00:00:00:09");
  EXPECT_EQ(with_mac("net_memif0,mac=02:00:00:00:00:01", mac), "net_memif0,mac=02:00:00:00:00:01");
  EXPECT_EQ(with_mac("net_af_packet0,iface=x", mac), "net_af_packet0,iface=x");
}

}  // namespace
}  // namespace itif::net
