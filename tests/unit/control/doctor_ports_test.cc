// `itifctl doctor`: ports and an itifd that runs, on trees of files.
#include "doctor_fixture.h"

namespace itif::ctl::doctor {
namespace {

TEST_F(DoctorTest, TheNicMustBelongToDpdk) {
  using enum Verdict;
  link(std::string(kPci) + "/driver", "../../drivers/ice");
  fs::create_directories(root_ + kPci + "/net/enp59s0f0");
  expect(kNic, "driver of 0000:3b:00.0", kFail, "ice (enp59s0f0): the kernel has it",
         "ip link set enp59s0f0 down && modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci "
         "0000:3b:00.0");
  link(std::string(kPci) + "/driver", "../../drivers/mlx5_core");
  expect(kNic, "driver of 0000:3b:00.0", kOk, "mlx5_core");
  expect(kNic, "IOMMU of 0000:3b:00.0", kNotApplicable, "does not need one");
  remove(std::string(kPci) + "/driver");
  expect(kNic, "driver of 0000:3b:00.0", kFail, "bound to none", "dpdk-devbind.py");
  remove(kPci);
  expect(kNic, "driver of 0000:3b:00.0", kFail, "no such PCI device", "lspci");
}

TEST_F(DoctorTest, VfioNeedsAnIommuAndItsGroup) {
  using enum Verdict;
  const std::string name = "IOMMU of 0000:3b:00.0";
  expect(kNic, name, kOk, "/dev/vfio/42");
  remove("/dev/vfio/42");
  expect(kNic, name, kFail, "/dev/vfio/42 is missing", "dpdk-devbind.py");
  remove(std::string(kPci) + "/iommu_group");
  remove("/sys/class/iommu/dmar0");
  expect(kNic, name, kFail, "off", "intel_iommu=on iommu=pt");
  put("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y");
  expect(kNic, name, kWarn, "no-IOMMU mode", "intel_iommu=on");
  link(std::string(kPci) + "/driver", "../../drivers/uio_pci_generic");
  expect(kNic, name, kWarn, "only root", "--bind=vfio-pci");
}

TEST_F(DoctorTest, WorkersBelongOnTheNicsNode) {
  using enum Verdict;
  expect(kNic, "NUMA node of 0000:3b:00.0", kOk, "0; workers on 2-5");
  put(std::string(kPci) + "/numa_node", "1");
  expect(kNic, "NUMA node of 0000:3b:00.0", kWarn, "workers 2-5 are on another node",
         "name CPUs of 6-7");
  put(std::string(kPci) + "/numa_node", "-1");
  expect(kNic, "NUMA node of 0000:3b:00.0", kNotApplicable, "one node");
}

TEST_F(DoctorTest, TheInterfaceMustBeUpAndTheKernelHasOtherAddresses) {
  using enum Verdict;
  expect(kVeth, "interface eth1", kOk, "up");
  put("/proc/net/fib_trie",
      "Main:\n  +-- 0.0.0.0/0 2 0 2\n     |-- 198.18.0.1\n        /32 host LOCAL\n");
  expect(kVeth, "address 198.18.0.1", kFail, "the kernel has it, too",
         "ip address del 198.18.0.1/24 dev eth1");
  put("/sys/class/net/eth1/operstate", "lowerlayerdown");
  expect(kVeth, "interface eth1", kWarn, "no carrier", "ethtool eth1");
  put("/sys/class/net/eth1/flags", "0x1002");
  expect(kVeth, "interface eth1", kFail, "down", "ip link set eth1 up");
  remove("/sys/class/net/eth1");
  expect(kVeth, "interface eth1", kFail, "none in this network namespace", "ip link");
  put("/proc/net/dev", "    lo: 0 0\n  eth1: 0 0\n");
  expect(kVeth, "interface eth1", kNotApplicable, "another network namespace's");
  expect(kVeth, "address 198.18.0.1", kFail, "the kernel has it, too", "ip address del");
}

// Two hosts with one address: the kernel refuses the datagrams that itifd takes, and ping is
// answered twice.
TEST_F(DoctorTest, TheKernelHasOtherIpv6Addresses) {
  using enum Verdict;
  const auto has_fault = [this](const std::string& config) {
    return count_of(run_checks(machine(config)), kFail) > 0;
  };
  put("/sys/class/net/eth1/address", "36:9e:35:ce:15:3c");
  const std::string same = "fe80000000000000349e35fffece153c 02 40 20 ";
  // Another link-local address, another interface's, and one that the kernel does not use.
  put("/proc/net/if_inet6", "fe80000000000000349e35fffece153d 02 40 20 80     eth1\n" + same +
                                "80     eth2\n" + same + "c8     eth1\n");
  EXPECT_FALSE(has_fault(kVeth));
  put("/proc/net/if_inet6",
      "00000000000000000000000000000001 01 80 10 80       lo\n" + same + "80     eth1\n");
  expect(kVeth, "address fe80::349e:35ff:fece:153c", kFail, "the kernel has it, too",
         "ip link set dev eth1 addrgenmode none && ip -6 address flush dev eth1");
  std::string ipv6 = kVeth;
  ipv6.replace(ipv6.find("ipv4"), 4, "ipv6 = [ \"fd00:18::1/64\" ]; ipv4");
  EXPECT_TRUE(has_fault(ipv6));
  put("/proc/net/if_inet6", "fd000018000000000000000000000001 03 40 00 80     eth3\n");
  expect(ipv6, "address fd00:18::1", kFail, "nobody listens",
         "ip address del fd00:18::1/64 dev eth3");
}

TEST_F(DoctorTest, EalArgsMustMakeTheDevice) {
  using enum Verdict;
  const auto replaced = [](std::string config, const std::string& what, const std::string& with) {
    return config.replace(config.find(what), what.size(), with);
  };
  expect(kVeth, "device net_af_packet0", kOk, "eal.args name it");
  expect(kNic, "device 0000:3b:00.0", kOk, "eal.args name it");
  const std::string other =
      replaced(kVeth, "device = \"net_af_packet0", "device = \"net_af_packet1");
  expect(other, "device net_af_packet1", kFail, "they name net_af_packet0",
         "--vdev=net_af_packet1,iface=INTERFACE");
  const std::string none = R"(
eal = { args = [ "--no-huge" ]; };
ports = ( { device = "net_memif0"; ipv4 = [ "198.18.0.1/24" ]; } );
)";
  expect(none, "device net_memif0", kFail, "they name none", "add \"--vdev=net_memif0\"");
  expect(replaced(none, "--no-huge", "--no-pci"), "device net_memif0", kFail, "they name none");
  const std::string unnamed = replaced(none, "device = \"net_memif0\"; ", "");
  expect(replaced(unnamed, "--no-huge", "--no-pci"), "device of the port", kFail, "none",
         "--vdev=");
  expect(replaced(kNic, "\"-a\", \"0000:3b", "\"-a\", \"0000:5e"), "device 0000:3b:00.0", kFail,
         "they name 0000:5e:00.0", "add \"-a\", \"0000:3b:00.0\"");
  expect(replaced(kNic, "\"-a\", \"0000:3b:00.0\"", "\"--no-pci\""), "device 0000:3b:00.0", kFail,
         "--no-pci", "take --no-pci out");
  expect(replaced(kNic, ", \"-a\", \"0000:3b:00.0\"", ""), "device 0000:3b:00.0", kOk, "opens all");
}

// DPDK's driver refuses the first two, and cuts frames with the third without a word.
TEST_F(DoctorTest, FramesOfAfPacketMustFitPacketBuffers) {
  using enum Verdict;
  const auto with = [](const std::string& arguments) {
    std::string config = kVeth;
    return config.replace(config.find("framecnt=16384"), 14, arguments);
  };
  const std::string name = "frames of net_af_packet0";
  expect(kVeth, name, kOk, "up to 1982 bytes");
  expect(with("blocksz=65536,framesz=4096"), name, kFail,
         "framesz=4096 has 4064 bytes for data, and packet buffers have 2048",
         "data_plane.mbuf_bytes = 4096");
  expect(with("blocksz=65536,framesz=4096") + "data_plane = { mbuf_bytes = 4064; };\n", name, kOk,
         "in packet buffers of 4064");
  expect(with("blocksz=4096,framesz=8192"), name, kFail, "larger than blocksz=4096",
         "blocksz=65536");
  expect(with("blocksz=65536,framesz=1024"), name, kFail, "cuts frames of more than 958 bytes",
         "framesz=2048");
}

TEST_F(DoctorTest, MtusMustAgree) {
  using enum Verdict;
  const std::string name = "MTU of net_af_packet0";
  expect(kVeth, name, kOk, "1500; pieces of up to 1368 bytes fit");
  put("/sys/class/net/eth1/mtu", "1400");
  expect(kVeth, name, kFail, "eth1 has 1400, ports[].mtu is 1500", "ip link set eth1 mtu 1500");
  put("/sys/class/net/eth1/mtu", "9000");
  expect(kVeth, name, kWarn, "longer datagrams of clients are lost", "ports[].mtu = 9000");
  std::string jumbo = kVeth;
  jumbo.replace(jumbo.find("ipv4"), 4, "mtu = 9000; ipv4");
  expect(jumbo, name, kFail, "packet buffers 2048", "data_plane.mbuf_bytes = 9216");
  put("/sys/class/net/eth1/mtu", "1280");
  std::string small = kVeth;
  small.replace(small.find("ipv4"), 4, "mtu = 1280; ipv4");
  expect(small, name, kWarn, "fewer than the 1368", "--fragment-bytes");
}

TEST_F(DoctorTest, AnItifdThatRunsIsBelieved) {
  using enum Verdict;
  nlohmann::json port = {{"device", "0000:3b:00.0"},
                         {"mtu", 1500},
                         {"offloads", {{"rss", true}, {"tx_udp_checksum", true}}}};
  health_ = {{"ports", {port}}};
  put("/proc/self/status", "CapEff:\t0000000000000000\n");
  put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "0");
  expect(kNic, "hugepages", kOk, "itifd runs and has taken its memory");
  expect(kNic, "offloads of 0000:3b:00.0", kOk, "rss, tx_udp_checksum");
  // One queue needs no rss, and a virtual port's CPU computes checksums.
  health_ = {{"ports",
              {{{"device", "net_af_packet0"},
                {"mtu", 1500},
                {"offloads", {{"rss", false}, {"rx_checksums", false}}}}}}};
  expect(kVeth, "offloads of net_af_packet0", kOk, "in software: rx_checksums");
  EXPECT_EQ(check_of(kVeth, "offloads of net_af_packet0").evidence.find("rss"), std::string::npos);
  port["offloads"]["tx_udp_checksum"] = false;
  health_ = {{"ports", {port}}};
  expect(kNic, "offloads of 0000:3b:00.0", kWarn, "in software: tx_udp_checksum", "ethdev");
  port["offloads"]["rss"] = false;
  port["mtu"] = 1400;
  health_ = {{"ports", {port}}};
  expect(kNic, "offloads of 0000:3b:00.0", kWarn, "in software: rss, tx_udp_checksum", "ethdev");
  port["spreading"] = {"driver"};
  port["offloads"]["tx_udp_checksum"] = true;
  health_ = {{"ports", {port}}};
  expect(kNic, "offloads of 0000:3b:00.0", kOk, "tx_udp_checksum");
  expect(kNic, "MTU of 0000:3b:00.0", kWarn, "itifd has 1400", "restart");
}

}  // namespace
}  // namespace itif::ctl::doctor
