#include "vocabulary.h"

#include <sstream>
#include <string_view>
#include <unordered_set>

namespace itif::mkmodel {
namespace {

constexpr const char* kSpecial[] = {"[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kMarks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kConsonants = "tnsrlcdmphgbfkvwyxzjq";
constexpr std::string_view kVowels = "eaoiuy";

// The most common words of English prose, short reviews, requests and news.
constexpr const char* kWords =
    "the of and to in is was for that on as with he it by at from his an were are which be this "
    "had "
    "also not or have one but its her first they who their she after has been two other time when "
    "all "
    "there into him may more some over can only than out new would no up year years most such them "
    "during between then about where many so made people later used between school city world "
    "state "
    "before well however will known both through may part university three under known being work "
    "these any number name early life game team season film series album music band house family "
    "war life day second high end while him you we my your our me us if do did does how what why "
    "because very good great bad best better worse worst love like liked hate hated movie book "
    "product service food place price quality quick quickly fast slow happy sad angry nice poor "
    "excellent terrible awful amazing wonderful perfect boring funny easy hard long short big "
    "small "
    "little old young large next last few own same right left still never always often again "
    "please "
    "thank thanks help need want get got give take make come go went see saw know think say said "
    "tell ask call find look use try buy sell pay order send receive return open close start stop "
    "run walk play read write watch hear speak talk eat drink sleep live die man woman men women "
    "child children boy girl father mother son daughter brother sister friend home country town "
    "street road water air fire earth sun moon star sky sea river mountain tree animal dog cat "
    "horse "
    "bird fish car train plane ship bus bike phone computer network server data model machine "
    "learning language text word sentence question answer problem system program code test result "
    "value money bank market company business government president minister law court police army "
    "north south east west left america england france germany india china japan london paris "
    "york john david james michael monday tuesday wednesday thursday friday saturday sunday "
    "january "
    "february march april june july august september october november december today tomorrow "
    "yesterday morning evening night week month hour minute four five six seven eight nine ten "
    "hundred thousand million red blue green black white yellow brown jumps over lazy fox hello";
constexpr const char* kEndings =
    "s ed ing ly er est ion tion ation ment ness able ible al ial ful less ous ive ity y ies ers "
    "ings "
    "th st nd rd n't 's ment ance ence ant ent ism ist ize ise ify en on or ary ery ory";

class Collector {
 public:
  explicit Collector(uint32_t size) : size_(size) { tokens_.reserve(size); }

  bool full() const { return tokens_.size() >= size_; }
  void add(const std::string& token) {
    if (!full() && seen_.insert(token).second) tokens_.push_back(token);
  }
  void add_words(const char* words, const std::string& prefix) {
    std::istringstream stream(words);
    for (std::string word; stream >> word;) add(prefix + word);
  }
  void add_letters(std::string_view letters, const std::string& prefix) {
    for (char letter : letters) add(prefix + letter);
  }
  std::vector<std::string> take() { return std::move(tokens_); }

 private:
  const uint32_t size_;
  std::vector<std::string> tokens_;
  std::unordered_set<std::string> seen_;
};

void add_syllables(Collector& tokens) {
  for (const std::string prefix : {"##", ""})
    for (char a : kLetters)
      for (char b : kLetters) tokens.add(prefix + a + b);
  for (const std::string prefix : {"##", ""})
    for (char a : kConsonants)
      for (char b : kVowels)
        for (char c : kConsonants) tokens.add(prefix + a + b + c);
  for (const std::string prefix : {"##", ""})
    for (char a : kConsonants)
      for (char b : kVowels)
        for (char c : kConsonants)
          for (char d : kVowels) tokens.add(prefix + a + b + c + d);
}

}  // namespace

std::vector<std::string> make_vocabulary(uint32_t size) {
  Collector tokens(size);
  uint32_t unused = 0;
  tokens.add("[PAD]");
  if (size >= 1000)
    while (unused < 99) tokens.add("[unused" + std::to_string(unused++) + "]");
  for (const char* special : kSpecial) tokens.add(special);
  tokens.add_letters(kLetters, "");
  tokens.add_letters(kLetters, "##");
  tokens.add_letters(kDigits, "");
  tokens.add_letters(kDigits, "##");
  tokens.add_letters(kMarks, "");
  tokens.add_words(kEndings, "##");
  tokens.add_words(kWords, "");
  add_syllables(tokens);
  while (!tokens.full()) tokens.add("[unused" + std::to_string(unused++) + "]");
  return tokens.take();
}

}  // namespace itif::mkmodel
