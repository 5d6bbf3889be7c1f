/**
 * Decodes the bytecode of CPython 3.6 to 3.11 to one set of instructions. Jumps become indices of instructions, and
 * the differences between the versions end here.
 */
import { badModel } from '../../../../lib/contract/errors.ts';

export interface Instruction {
  readonly op: string;
  readonly arg: number;
  /** The instruction that a jump goes to. */
  readonly target: number;
}

/** What a code object holds; numbers of its fields differ by version. */
export interface RawCode {
  readonly version: 'old' | '3.8' | '3.11';
  readonly code: Uint8Array;
  readonly lines: Uint8Array;
}

const MAX_CODE_BYTES = 1024 * 1024;

/** Numbers and names of operations that 3.6 to 3.10 share. */
const BASE: Readonly<Record<number, string>> = numbered(
  '1 POP_TOP 2 ROT_TWO 3 ROT_THREE 4 DUP_TOP 5 DUP_TOP_TWO 6 ROT_FOUR 9 NOP 10 UNARY_POSITIVE 11 UNARY_NEGATIVE ' +
    '12 UNARY_NOT 15 UNARY_INVERT 16 B:matmul 17 B:matmul 19 B:pow 20 B:mul 22 B:remainder 23 B:add 24 B:sub ' +
    '25 BINARY_SUBSCR 26 B:floordiv 27 B:div 28 I:floordiv 29 I:div 55 I:add 56 I:sub 57 I:mul 59 I:remainder ' +
    '60 STORE_SUBSCR 64 B:__and__ 65 B:__xor__ 66 B:__or__ 67 I:pow 68 GET_ITER 74 LOAD_ASSERTION_ERROR ' +
    '77 I:__and__ 78 I:__xor__ 79 I:__or__ 80 BREAK_LOOP 82 LIST_TO_TUPLE 83 RETURN_VALUE 87 POP_BLOCK ' +
    '92 UNPACK_SEQUENCE 93 FOR_ITER 95 STORE_ATTR 100 LOAD_CONST 102 BUILD_TUPLE 103 BUILD_LIST 105 BUILD_MAP ' +
    '106 LOAD_ATTR 107 COMPARE_OP 110 JUMP_FORWARD 111 JUMP_IF_FALSE_OR_POP 112 JUMP_IF_TRUE_OR_POP ' +
    '113 JUMP_ABSOLUTE 114 POP_JUMP_IF_FALSE 115 POP_JUMP_IF_TRUE 116 LOAD_GLOBAL 117 IS_OP 118 CONTAINS_OP ' +
    '119 CONTINUE_LOOP 120 SETUP_LOOP 124 LOAD_FAST 125 STORE_FAST 126 DELETE_FAST 130 RAISE_VARARGS ' +
    '131 CALL_FUNCTION 132 MAKE_FUNCTION 133 BUILD_SLICE 135 LOAD_CLOSURE 136 LOAD_DEREF 137 STORE_DEREF ' +
    '141 CALL_FUNCTION_KW 142 CALL_FUNCTION_EX 145 LIST_APPEND 149 BUILD_LIST_UNPACK 152 BUILD_TUPLE_UNPACK ' +
    '155 FORMAT_VALUE 156 BUILD_CONST_KEY_MAP 157 BUILD_STRING 158 BUILD_TUPLE_UNPACK 160 LOAD_METHOD ' +
    '161 CALL_METHOD 162 LIST_EXTEND 164 DICT_UPDATE 165 DICT_UPDATE',
);

const NEW: Readonly<Record<number, string>> = numbered(
  '1 POP_TOP 2 PUSH_NULL 9 NOP 10 UNARY_POSITIVE 11 UNARY_NEGATIVE 12 UNARY_NOT 15 UNARY_INVERT 25 BINARY_SUBSCR ' +
    '60 STORE_SUBSCR 68 GET_ITER 74 LOAD_ASSERTION_ERROR 82 LIST_TO_TUPLE 83 RETURN_VALUE 92 UNPACK_SEQUENCE ' +
    '93 FOR_ITER 95 STORE_ATTR 99 SWAP 100 LOAD_CONST 102 BUILD_TUPLE 103 BUILD_LIST 105 BUILD_MAP 106 LOAD_ATTR ' +
    '107 COMPARE_OP 110 JUMP_FORWARD 111 JUMP_IF_FALSE_OR_POP 112 JUMP_IF_TRUE_OR_POP 114 POP_JUMP_IF_FALSE ' +
    '115 POP_JUMP_IF_TRUE 116 LOAD_GLOBAL 117 IS_OP 118 CONTAINS_OP 120 COPY 122 BINARY_OP 124 LOAD_FAST ' +
    '125 STORE_FAST 126 DELETE_FAST 128 POP_JUMP_IF_NOT_NONE 129 POP_JUMP_IF_NONE 130 RAISE_VARARGS ' +
    '132 MAKE_FUNCTION 133 BUILD_SLICE 135 NOP 136 LOAD_CLOSURE 137 LOAD_DEREF 138 STORE_DEREF 140 JUMP_BACKWARD ' +
    '142 CALL_FUNCTION_EX 145 LIST_APPEND 149 NOP 151 NOP 155 FORMAT_VALUE 156 BUILD_CONST_KEY_MAP 157 BUILD_STRING ' +
    '160 LOAD_METHOD 162 LIST_EXTEND 164 DICT_UPDATE 165 DICT_UPDATE 166 NOP 171 CALL 172 KW_NAMES ' +
    '173 BACK_IF_NOT_NONE 174 BACK_IF_NONE 175 BACK_IF_FALSE 176 BACK_IF_TRUE',
);

/** Code units that 3.11 leaves empty after an operation. */
const CACHES: Readonly<Record<number, number>> = {
  25: 4,
  60: 1,
  92: 1,
  95: 4,
  106: 4,
  107: 2,
  116: 5,
  122: 1,
  160: 10,
  166: 1,
  171: 4,
};

const OPERATIONS = 'add __and__ floordiv lshift matmul mul remainder __or__ pow rshift sub div __xor__'.split(
  ' ',
);
const EXTENDED_ARG = 144;
const RELATIVE = new Set(['FOR_ITER', 'JUMP_FORWARD', 'SETUP_LOOP']);

function numbered(text: string): Record<number, string> {
  const parts = text.split(' ');
  return Object.fromEntries(
    parts.flatMap((part, i) => (i % 2 === 0 ? [[Number(part), parts[i + 1] as string]] : [])),
  );
}

/** @throws bad_model for code of Python 3.12 and newer, and for broken code */
export function decode({ version, code, lines }: RawCode): Instruction[] {
  if (code.length % 2 !== 0 || code.length > MAX_CODE_BYTES) throw badModel('a function has broken bytecode');
  return version === '3.11' ? decodeNew(code) : decodeOld(code, countsUnits(version, code, lines));
}

/** Since 3.10 jumps count code units: its line table covers the whole code, the older one only up to the last line. */
function countsUnits(version: RawCode['version'], code: Uint8Array, lines: Uint8Array): boolean {
  let sum = 0;
  for (let i = 0; i < lines.length; i += 2) sum += lines[i] as number;
  return version === '3.8' && sum === code.length;
}

function decodeOld(code: Uint8Array, isUnits: boolean): Instruction[] {
  const made: Instruction[] = [];
  let extended = 0;
  for (let i = 0; i < code.length / 2; i++) {
    const [number, low] = [code[2 * i] as number, code[2 * i + 1] as number];
    const arg = extended * 256 + low;
    extended = number === EXTENDED_ARG ? arg : 0;
    const name = number === EXTENDED_ARG ? 'NOP' : (BASE[number] ?? `operation ${number}`);
    const jump = isUnits ? arg : arg / 2;
    made.push({ op: name, arg, target: RELATIVE.has(name) ? i + 1 + jump : jump });
  }
  return made;
}

function decodeNew(code: Uint8Array): Instruction[] {
  const made: Instruction[] = [];
  let extended = 0;
  let caches = 0;
  for (let i = 0; i < code.length / 2; i++) {
    const [number, low] = [code[2 * i] as number, code[2 * i + 1] as number];
    if (caches > 0 !== (number === 0)) throw badModel('a function has bytecode of a newer Python than 3.11');
    if (number === 0) {
      caches -= 1;
      made.push({ op: 'NOP', arg: 0, target: 0 });
      continue;
    }
    const arg = extended * 256 + low;
    extended = number === EXTENDED_ARG ? arg : 0;
    caches = CACHES[number] ?? 0;
    made.push(newInstruction(number, arg, i + 1));
  }
  return made;
}

function newInstruction(number: number, arg: number, next: number): Instruction {
  const name = number === EXTENDED_ARG ? 'NOP' : (NEW[number] ?? `operation ${number}`);
  if (name === 'JUMP_BACKWARD') return { op: 'JUMP_ABSOLUTE', arg, target: next - arg };
  if (name.startsWith('BACK_')) return { op: name.replace('BACK_', 'POP_JUMP_'), arg, target: next - arg };
  if (name === 'BINARY_OP') {
    const operation = OPERATIONS[arg % 13] ?? 'unknown';
    return { op: `${arg >= 13 ? 'I' : 'B'}:${operation}`, arg, target: 0 };
  }
  return { op: name, arg, target: next + arg };
}
