#include "csimdjson.h"

#include <simdjson.h>

#include <new>
#include <utility>

using namespace simdjson;

namespace {

constexpr size_t most_digits = 19;
/// Maximum length of a number in characters, as in the strict parser.
constexpr size_t most_characters = 400;

/// Reads a number of at most `most_digits` digits; simdjson 3.0 may parse longer ones inaccurately.
bool read_number(ondemand::value value, double *number) {
  std::string_view token = value.raw_json_token();
  if (token.size() > most_characters) return false;
  if (token.size() > most_digits) {
    size_t digits = 0;
    for (char byte : token) {
      if (byte >= '0' && byte <= '9') {
        if (digits > 0 || byte != '0') digits++;
      } else if (byte == 'e' || byte == 'E' || byte == ' ' || byte == '\n') {
        break;
      }
    }
    if (digits > most_digits) return false;
  }
  return !value.get_double().get(*number);
}

/// Reads four rows of four numbers, or sixteen numbers.
bool read_transform(ondemand::value value, double *numbers) {
  ondemand::array rows;
  if (value.get_array().get(rows)) return false;
  size_t count = 0;
  for (auto element : rows) {
    ondemand::value row;
    if (element.get(row)) return false;
    ondemand::json_type type;
    if (row.type().get(type)) return false;
    if (type == ondemand::json_type::array) {
      ondemand::array columns;
      if (count % 4 != 0 || row.get_array().get(columns)) return false;
      size_t start = count;
      for (auto number : columns) {
        ondemand::value column;
        if (count == start + 4 || count == 16 || number.get(column) || !read_number(column, &numbers[count])) return false;
        count++;
      }
      if (count != start + 4) return false;
    } else {
      if (count == 16 || !read_number(row, &numbers[count])) return false;
      count++;
    }
  }
  return count == 16;
}

bool read_pose(ondemand::value value, csimdjson_pose *pose) {
  ondemand::object object;
  if (value.get_object().get(object)) return false;
  *pose = {};
  bool has_number = false, has_transform = false, saw_depth = false, saw_depth_index = false;
  for (auto field : object) {
    std::string_view key;
    ondemand::value member;
    if (field.unescaped_key().get(key) || field.value().get(member)) return false;
    // Repeated and unknown keys are left to the strict parser.
    if (key == "transform") {
      if (has_transform || !read_transform(member, pose->transform)) return false;
      has_transform = true;
    } else if (key == "timestamp") {
      std::string_view digits = member.raw_json_token();
      if (pose->timestamp != nullptr || digits.size() > most_characters) return false;
      while (!digits.empty() && static_cast<unsigned char>(digits.back()) <= ' ') digits.remove_suffix(1);
      double seconds;
      if (member.get_double().get(seconds)) return false;
      pose->timestamp = digits.data();
      pose->timestamp_count = digits.size();
    } else if (key == "rgbIndex") {
      if (has_number || !read_number(member, &pose->number)) return false;
      has_number = true;
    } else if (key == "depthIndex" || key == "depth") {
      bool is_depth = key == "depth", is_null;
      if (std::exchange(is_depth ? saw_depth : saw_depth_index, true) || member.is_null().get(is_null)) return false;
      if (!is_null && !read_number(member, is_depth ? &pose->depth : &pose->depth_index)) return false;
      if (is_depth) {
        pose->has_depth = !is_null;
        pose->has_null_depth = is_null;
      } else {
        pose->has_depth_index = !is_null;
      }
    } else {
      return false;
    }
  }
  return has_number && has_transform && pose->timestamp != nullptr;
}

}  // namespace

struct csimdjson_parser : ondemand::parser {};

csimdjson_parser *csimdjson_new(void) { return new (std::nothrow) csimdjson_parser; }

void csimdjson_free(csimdjson_parser *parser) { delete parser; }

int64_t csimdjson_read_poses(
    csimdjson_parser *parser, const uint8_t *text, size_t count, void *context,
    void (*visit)(void *context, const csimdjson_pose *pose)) {
  static_assert(CSIMDJSON_PADDING >= SIMDJSON_PADDING, "simdjson reads beyond the text");
  if (parser == nullptr) return -1;
  ondemand::document document;
  ondemand::array entries;
  if (parser->iterate(text, count, count + CSIMDJSON_PADDING).get(document) || document.get_array().get(entries)) return -1;
  int64_t read = 0;
  csimdjson_pose pose;
  for (auto element : entries) {
    ondemand::value value;
    if (element.get(value) || !read_pose(value, &pose)) return -1;
    visit(context, &pose);
    read++;
  }
  // Text after the list is refused: the document must be at its end.
  const char *rest;
  return document.current_location().get(rest) == OUT_OF_BOUNDS ? read : -1;
}
