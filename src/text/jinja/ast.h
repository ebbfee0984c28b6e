// The syntax tree of a compiled template: immutable once parsed, shared by all renders.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace met::text::jinja {

using Native = Value (*)(Interpreter& run, Arguments& arguments);

struct Position {
  int line = 0;
  int column = 0;
};

enum class ExprKind : std::uint8_t {
  kConstant,
  kName,
  kList,
  kTuple,
  kDict,  // items: key, value, key, value...
  kAttribute,
  kItem,
  kSlice,  // items: start, stop, step; null where absent
  kCall,   // left: callee
  kFilter,
  kTest,
  kNot,
  kNegative,
  kPositive,
  kAnd,
  kOr,
  kCompare,  // left, then operators[i] items[i]
  kBinary,
  kConcat,
  kCondition,  // left if items[0] else items[1] (null: undefined)
};

enum class Operator : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIn,
  kNotIn
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind;
  Position at;
  int depth = 1;  ///< of the chain of `left`
  Value constant;
  std::string name;         ///< attribute, filter or test
  int symbol = -1;          ///< of a kName
  Native native = nullptr;  ///< filter or test; null: unknown
  Operator op{};
  ExprPtr left;
  std::vector<ExprPtr> items;
  std::vector<Operator> operators;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       ///< *args
  ExprPtr star_star;  ///< **kwargs
};

enum class StmtKind : std::uint8_t {
  kText,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,  // generation, block, autoescape: a scope of their own
  kBreak,
  kContinue,
  kNoLoader,  // include, import, extends
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct Parameters {
  std::vector<int> symbols;
  std::vector<std::string> names;
  std::vector<ExprPtr> defaults;  ///< of the last ones
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct Stmt {
  StmtKind kind;
  Position at;
  Value text;  ///< kText
  std::string name;
  int symbol = -1;
  ExprPtr target;  ///< name, tuple of targets or attribute of a namespace
  ExprPtr value;
  ExprPtr condition;
  bool recursive = false;
  Body body;
  Body other;                                            ///< else
  std::vector<std::pair<ExprPtr, Body>> branches;        ///< if, elif
  std::vector<std::pair<ExprPtr, ExprPtr>> assignments;  ///< with
  Parameters parameters;
  std::vector<ExprPtr> outputs;
};

/// What the parser saw but cannot check: a filter, test or function that does not exist.
struct Unknown {
  std::string what;
  Position at;
};

struct Tree {
  Body body;
  std::vector<std::string> symbols;  ///< names by number
  std::vector<Unknown> unknown;
};

}  // namespace met::text::jinja
