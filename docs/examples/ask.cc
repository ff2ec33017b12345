// Asks an itif appliance for the classes of a text, with the installed client library:
//
//   c++ -o ask ask.cc $(pkg-config --cflags --libs itif-client)
//   ./ask 198.18.0.1:9009 1 5f0c6a1de6e0b0f2a3b1c2d3e4f50617 "a fine day"
#include <client/client.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

int main(int argc, char** argv) {
  if (argc != 5 || std::string(argv[3]).size() != 32) {
    std::fprintf(stderr,
                 "usage: ask HOST[:PORT] TENANT-ID KEY TEXT (id and key: itifctl tenant add)\n");
    return 2;
  }
  const auto server = itif::client::parse_server(argv[1]);
  if (!server) {
    std::fprintf(stderr, "%s\n", server.error().message.c_str());
    return 2;
  }
  itif::client::Credential credential;
  credential.tenant_id = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  for (size_t i = 0; i < credential.key.size(); ++i)
    credential.key[i] =
        static_cast<std::byte>(std::strtoul(std::string(argv[3] + 2 * i, 2).c_str(), nullptr, 16));
  const std::string text = argv[4];

  const itif::SystemClock clock;
  auto client = itif::client::BlockingClient::connect(clock, *server);
  if (!client) {
    std::fprintf(stderr, "%s\n", client.error().message.c_str());
    return 1;
  }
  const auto answer = (*client)->infer(
      credential,
      {.result_kind = itif::wire::ResultKind::kClasses, .payload = std::as_bytes(std::span(text))},
      5'000'000'000);
  if (!answer) {  // nobody answered
    std::fprintf(stderr, "%s\n", answer.error().message.c_str());
    return 1;
  }
  if (answer->status != itif::wire::StatusCode::kOk) {  // the appliance refused
    std::fprintf(stderr, "%s: %s\n", itif::wire::status_name(answer->status),
                 answer->detail.c_str());
    return 1;
  }
  const auto classes = itif::client::decode_classes(answer->result);
  if (!classes) {
    std::fprintf(stderr, "%s\n", classes.error().message.c_str());
    return 1;
  }
  for (const auto& one : *classes)
    std::printf("%5.1f %%  %s\n", 100 * one.probability, one.name.c_str());
  return 0;
}
