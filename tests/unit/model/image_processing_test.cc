// preprocessor_config.json: settings that are accepted, and settings that are refused by name.
#include "model/image_processing.h"

#include <gtest/gtest.h>

#include "support/temp_directory.h"

namespace itif::model {
namespace {

constexpr ImageInput kInput{.height = 32, .width = 48, .channels = 3, .patch = 16};

Result<ImageProcessing> read(const std::string& text, const ImageInput& input = kInput) {
  testing::TempDirectory directory;
  directory.write("preprocessor_config.json", text);
  return read_image_processing(directory.path(), input);
}

TEST(ImageProcessing, MissingFieldsDefaultAsInTransformers) {
  const ImageInput usual{.height = 224, .width = 224, .channels = 3, .patch = 16};
  const auto processing = read("{}", usual).value();
  EXPECT_EQ(processing.resize, ResizeFilter::kBilinear);
  ASSERT_EQ(processing.scale.size(), 3u);
  EXPECT_FLOAT_EQ(processing.scale[2], 1 / 127.5f);
  EXPECT_FLOAT_EQ(processing.shift[2], -1);
}

TEST(ImageProcessing, EachStepCanBeDisabled) {
  auto processing =
      read(R"({"do_resize": false, "do_rescale": false, "do_normalize": false})").value();
  EXPECT_FALSE(processing.resize);
  EXPECT_EQ(processing.scale, std::vector<float>(3, 1));
  EXPECT_EQ(processing.shift, std::vector<float>(3, 0));
  processing = read(R"({"size": {"height": 32, "width": 48}, "resample": 3, "do_rescale": false,
                        "image_mean": [1, 2, 3], "image_std": 4})")
                   .value();
  EXPECT_EQ(processing.resize, ResizeFilter::kBicubic);
  EXPECT_EQ(processing.scale, std::vector<float>(3, 0.25f));
  EXPECT_EQ(processing.shift, (std::vector<float>{-0.25f, -0.5f, -0.75f}));
}

// As in transformers: null is not "not set".
TEST(ImageProcessing, NullDisablesAStep) {
  const auto processing =
      read(R"({"do_resize": null, "do_rescale": null, "do_normalize": null, "resample": null,
               "rescale_factor": null, "image_mean": null, "image_std": null})");
  ASSERT_TRUE(processing) << processing.error().message;
  EXPECT_FALSE(processing->resize);
  EXPECT_EQ(processing->scale, std::vector<float>(3, 1));
  EXPECT_EQ(processing->shift, std::vector<float>(3, 0));
}

TEST(ImageProcessing, AcceptsTheSingleSizeOfOldFiles) {
  const ImageInput square{.height = 32, .width = 32, .channels = 1, .patch = 8};
  const auto processing = read(
      R"({"feature_extractor_type": "ViTFeatureExtractor", "size": 32, "resample": 0})", square);
  ASSERT_TRUE(processing) << processing.error().message;
  EXPECT_EQ(processing->resize, ResizeFilter::kNearest);
  EXPECT_EQ(processing->scale.size(), 1u);
}

// transformers 5 saves the parts of a processor in one file, and reads that file first.
TEST(ImageProcessing, TheCombinedFileComesFirst) {
  testing::TempDirectory directory;
  directory.write("preprocessor_config.json", R"({"size": {"height": 32, "width": 48}})");
  directory.write("processor_config.json", R"({"processor_class": "X"})");
  EXPECT_EQ(read_image_processing(directory.path(), kInput)->resize, ResizeFilter::kBilinear);
  directory.write("processor_config.json", R"({"image_processor": {
      "image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 48},
      "resample": 3}})");
  EXPECT_EQ(read_image_processing(directory.path(), kInput)->resize, ResizeFilter::kBicubic);
  directory.write("processor_config.json", R"({"image_processor": {"image_processor_type": "X"}})");
  const auto refused = read_image_processing(directory.path(), kInput);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("processor_config.json: 'image_processor_type'"),
            std::string::npos);
}

TEST(ImageProcessing, MoreStepsMustKeepTheSize) {
  const std::string size = R"("size": {"height": 32, "width": 48})";
  EXPECT_TRUE(read("{" + size + R"(, "do_center_crop": true,
                   "crop_size": {"height": 32, "width": 48}, "do_pad": false})"));
  EXPECT_FALSE(read("{" + size + R"(, "do_center_crop": true})"));
  EXPECT_FALSE(read("{" + size + R"(, "do_pad": true, "pad_size": {"height": 64, "width": 64}})"));
}

TEST(ImageProcessing, WrongSettingsAreRefusedByName) {
  const struct {
    std::string text;
    Code code;
    const char* expected;
  } rows[] = {
      {"[", Code::kCorrupt, "preprocessor_config.json"},
      {R"({"image_processor_type": "CLIPImageProcessor"})", Code::kUnsupported,
       "CLIPImageProcessor"},
      {R"({"size": 32})", Code::kInvalidArgument,
       "'size' must be the model's: height 32, width 48"},
      {R"({})", Code::kInvalidArgument, "'size'"},
      {R"({"size": {"shortest_edge": 32}})", Code::kUnsupported,
       "'size' must give height and width"},
      {R"({"size": "32"})", Code::kInvalidArgument, "'size'"},
      {R"({"do_resize": 1})", Code::kInvalidArgument, "'do_resize'"},
      {R"({"do_resize": false, "rescale_factor": "x"})", Code::kInvalidArgument,
       "'rescale_factor'"},
      {R"({"do_resize": false, "image_mean": [1, 2]})", Code::kInvalidArgument,
       "'image_mean' must be a number or an array of 3 numbers, found [1,2]"},
      {R"({"do_resize": false, "image_mean": ["a", 1, 2]})", Code::kInvalidArgument,
       "'image_mean'"},
      {R"({"do_resize": false, "image_std": [0.5, 0, 0.5]})", Code::kInvalidArgument,
       "'image_std' must be numbers that are not 0"},
      {R"({"size": {"height": 32, "width": 48}, "resample": 6})", Code::kInvalidArgument,
       "'resample'"},
  };
  for (const auto& row : rows) {
    const auto processing = read(row.text);
    ASSERT_FALSE(processing) << row.text;
    EXPECT_EQ(processing.error().code, row.code) << processing.error().message;
    EXPECT_NE(processing.error().message.find(row.expected), std::string::npos)
        << processing.error().message;
  }
  testing::TempDirectory empty;
  EXPECT_EQ(read_image_processing(empty.path(), kInput).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace itif::model
