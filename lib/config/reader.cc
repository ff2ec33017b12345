#include "config/reader.h"

namespace itif::config {

const char* type_text(const Setting& setting) {
  switch (setting.getType()) {
    case Setting::TypeInt:
    case Setting::TypeInt64: return "an integer";
    case Setting::TypeFloat: return "a floating-point number";
    case Setting::TypeString: return "a string";
    case Setting::TypeBoolean: return "a boolean";
    case Setting::TypeGroup: return "a group { }";
    case Setting::TypeArray: return "an array [ ]";
    case Setting::TypeList: return "a list ( )";
    default: return "nothing";
  }
}

}  // namespace itif::config
