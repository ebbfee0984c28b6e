// Calls written as tags with one value a parameter.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tools/scan_parser.h"

namespace met::text {

/// How a dialect spells its tags. A call is [section [call [parameter]*]*].
struct XmlDialect {
  struct Section {
    std::string_view open;  ///< "<tool_call>"
    std::string_view close;
  };
  std::vector<Section> sections;
  std::string_view
      call_open;  ///< up to the name: "<function=", "<invoke "; empty: the name follows the section
  std::string_view call_close;  ///< empty: the section's end is the call's
  std::string_view param_open;  ///< up to the key: "<parameter=", "<parameter ", "<arg_key>"
  std::string_view param_close;
  bool attributes = false;           ///< the name is the attribute `name`, the tag ends with ">"
  std::string_view key_end = ">";    ///< without attributes: what ends the key
  std::string_view value_open = {};  ///< stands between key and value
  bool bare_calls = false;           ///< a call may stand outside of a section
  bool line_breaks = false;          ///< one line break on each side of a value is markup
  bool typed = false;                ///< the attribute `string` says whether a value is text or JSON
};

/// Values become JSON by the schema of their parameter, see json_of; text is passed on as it comes. A value ends
/// at its own closing tag or at the next parameter's opening one, so other tags may be data inside it. At the end
/// of the output the object is closed when all parameters are.
class XmlCalls final : public ScanParser {
 public:
  XmlCalls(XmlDialect dialect, std::shared_ptr<const ToolSet> tools);

 private:
  enum class State { kText, kSection, kName, kCall, kKey, kBeforeValue, kValue };
  struct Tag {
    std::string name;
    std::string string;  // the attribute `string`
    std::size_t bytes = 0;
  };

  bool step(AnswerSink& out) override;
  void close(bool cut, AnswerSink& out) override;
  bool text(AnswerSink& out);
  bool section(AnswerSink& out);
  bool call_name(AnswerSink& out);
  bool bare_name(AnswerSink& out);
  bool in_call(AnswerSink& out);
  bool key(AnswerSink& out);
  bool value(AnswerSink& out);

  void open_section(std::size_t which);
  bool no_call(AnswerSink& out);
  void begin(std::string_view name, AnswerSink& out);
  void begin_value(std::string_view key, JsonTypes types, AnswerSink& out);
  void value_bytes(std::string_view bytes, AnswerSink& out);
  void end_value(AnswerSink& out);
  void end_call(AnswerSink& out);
  /// The tag whose attributes begin `rest()`. Zero bytes: more are needed; npos: it is no such tag.
  Tag attributes() const;

  XmlDialect dialect_;
  std::shared_ptr<const ToolSet> tools_;
  std::vector<std::string_view> openers_;
  State state_ = State::kText;
  std::string markup_;  // since the section began: text after all if no call follows
  std::string name_;
  bool called_ = false;  // in this section
  std::string_view section_close_;
  int params_ = 0;
  JsonTypes types_;
  bool raw_json_ = false;  // the value is JSON by its attribute
  bool streams_ = false;   // the value is text and goes out as it comes
  bool at_start_ = false;  // of the value
  std::string held_;       // a line break that may be markup
  std::string value_;      // a value that goes out whole
};

}  // namespace met::text
