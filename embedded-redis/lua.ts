/**
 * Runs Lua synchronously, with JavaScript functions that it may call. wasmoon's own calls are async and convert
 * strings to UTF-8, so this uses its WebAssembly module directly, where strings are bytes. Lua is 5.4 here and 5.1 in
 * Redis (10 / 2 reads "5.0"); the prelude hides some of the differences.
 */
import type { LuaWasm } from 'wasmoon';
import type { Bytes } from './replies.ts';

/** Functions of the WebAssembly module that wasmoon's typed interface lacks, or has only for UTF-8. */
interface WasmExports {
  readonly HEAPU8: Uint8Array<ArrayBuffer>;
  readonly addFunction: (body: (...args: number[]) => number | undefined, signature: string) => number;
  readonly _malloc: (bytes: number) => number;
  readonly _realloc: (pointer: number, bytes: number) => number;
  readonly _free: (pointer: number) => void;
  readonly _lua_pushlstring: (state: number, text: number, bytes: number) => void;
  readonly _lua_tolstring: (state: number, index: number, bytes: number) => number;
}

interface Memory {
  readonly bytes: () => Buffer;
  readonly addFunction: WasmExports['addFunction'];
  readonly malloc: WasmExports['_malloc'];
  readonly realloc: WasmExports['_realloc'];
  readonly free: WasmExports['_free'];
  readonly pushString: WasmExports['_lua_pushlstring'];
  readonly toString: WasmExports['_lua_tolstring'];
}

/**
 * A Lua table that is not just a list. Its list items have bigint names from 1n; names of other types are dropped.
 */
type LuaFields = Map<Bytes | bigint, LuaValue>;
/** Integers are bigint. `LUA_NULL` is the only light userdata (cjson.null). */
export type LuaValue =
  | Bytes
  | number
  | bigint
  | boolean
  | null
  | typeof LUA_NULL
  | LuaFields
  | readonly LuaValue[];
export const LUA_NULL = Symbol('null');

/** A JavaScript function. An error becomes a table { err = message }, raised in Lua or returned to it. */
interface LuaFunction {
  readonly body: (args: LuaValue[]) => LuaValue;
  readonly onError: 'raise' | 'return';
}

/** An error of the script, with its line if known. */
export class LuaError extends Error {}

const MEMORY_BYTES = 256 * 1024 * 1024;
/** The nesting of tables in both directions, as in Redis. */
const DEPTH = 100;
const REGISTRY = -1_001_000;
const HOOK_COUNT = 8;
const HOOK_EVERY = 10_000;
const TYPE = { boolean: 1, light: 2, number: 3, string: 4, table: 5 } as const;

export class LuaMachine {
  readonly #lua: LuaWasm;
  readonly #memory: Memory;
  readonly #state: number;
  readonly #hook: number;
  readonly #scratch: number;
  readonly #main: number;
  #usedBytes = 0;
  #deadlineMs = 0;

  /** Runs the source once with the functions and null as arguments. It returns the function that `call` calls. */
  static async create(source: Bytes, functions: readonly LuaFunction[]): Promise<LuaMachine> {
    const wasmoon = await import('wasmoon');
    const lua = await wasmoon.LuaWasm.initialize();
    const wasm: unknown = lua.module; // its type wants the types of Emscripten
    const exported = wasm as WasmExports;
    const { addFunction, _malloc: malloc, _realloc: realloc, _free: free } = exported;
    const { _lua_pushlstring: pushString, _lua_tolstring: toString } = exported;
    // Read each time, because the memory moves when it grows.
    const bytes = (): Buffer => Buffer.from(exported.HEAPU8.buffer);
    const memory = { bytes, addFunction, malloc, realloc, free, pushString, toString };
    return new LuaMachine(lua, memory, source, functions);
  }

  private constructor(lua: LuaWasm, memory: Memory, source: Bytes, functions: readonly LuaFunction[]) {
    this.#lua = lua;
    this.#memory = memory;
    const state = lua.lua_newstate(memory.addFunction(this.#allocate, 'iiiii'), 0);
    this.#state = state;
    this.#scratch = memory.malloc(16);
    this.#hook = memory.addFunction((running = 0) => {
      if (performance.now() < this.#deadlineMs) return undefined;
      // From now on at every instruction, so that a script that catches the error gets no further.
      lua.lua_sethook(running, this.#hook, HOOK_COUNT, 1);
      this.#push(running, 'script took longer than its time limit');
      return lua.lua_error(running);
    }, 'vii');
    lua.luaL_openlibs(state);
    const text = this.#copyIn(source);
    const status: number = lua.luaL_loadbufferx(state, text, source.length, 'prelude', 't');
    if (status !== 0) throw new LuaError(this.#popText());
    memory.free(text);
    for (const one of functions) lua.lua_pushcclosure(state, this.#expose(one), 0);
    this.#push(state, LUA_NULL);
    if (lua.lua_pcallk(state, functions.length + 1, 1, 0, 0, null) !== 0) throw new LuaError(this.#popText());
    this.#main = lua.luaL_ref(state, REGISTRY);
  }

  /** Synchronous. Throws when time, memory or stack ran out; the machine should not be used afterwards. */
  call(args: readonly LuaValue[], limitMs: number): LuaValue[] {
    const lua = this.#lua;
    const state = this.#state;
    lua.lua_settop(state, 0);
    lua.lua_checkstack(state, 4 * DEPTH + args.length);
    lua.lua_rawgeti(state, REGISTRY, BigInt(this.#main));
    for (const arg of args) this.#push(state, arg);
    this.#deadlineMs = performance.now() + limitMs;
    lua.lua_sethook(state, this.#hook, HOOK_COUNT, HOOK_EVERY);
    const status = lua.lua_pcallk(state, args.length, -1, 0, 0, null);
    lua.lua_sethook(state, null, 0, 0);
    if (status !== 0) throw new LuaError(this.#popText());
    const results: LuaValue[] = [];
    for (let at = 1, top = lua.lua_gettop(state); at <= top; at += 1) results.push(this.#read(state, at));
    lua.lua_settop(state, 0);
    return results;
  }

  readonly #allocate = (_data = 0, pointer = 0, oldSize = 0, newSize = 0): number => {
    const before = pointer === 0 ? 0 : oldSize >>> 0;
    const after = newSize >>> 0;
    if (after > before && this.#usedBytes + after - before > MEMORY_BYTES) return 0;
    this.#usedBytes += after - before;
    if (after > 0) return this.#memory.realloc(pointer, after);
    this.#memory.free(pointer);
    return 0;
  };

  #expose({ body, onError }: LuaFunction): number {
    const lua = this.#lua;
    return this.#memory.addFunction((state = 0) => {
      let failed = false;
      try {
        lua.lua_checkstack(state, 4 * DEPTH);
        const args: LuaValue[] = [];
        for (let at = 1, top = lua.lua_gettop(state); at <= top; at += 1) args.push(this.#read(state, at));
        this.#push(state, body(args));
      } catch (error) {
        if (error === Infinity) throw error; // a Lua error on its way through this frame
        failed = true;
        this.#push(state, new Map([['err', error instanceof Error ? error.message : String(error)]]));
      }
      return failed && onError === 'raise' ? lua.lua_error(state) : 1;
    }, 'ii');
  }

  #copyIn(text: Bytes): number {
    const pointer = this.#memory.malloc(text.length + 1);
    if (pointer === 0) throw new LuaError('not enough memory');
    this.#memory.bytes().write(text, pointer, text.length, 'latin1');
    return pointer;
  }

  #push(state: number, value: LuaValue, depth = 0): void {
    const lua = this.#lua;
    if (depth > DEPTH) throw new LuaError('too deeply nested');
    if (value === null) lua.lua_pushnil(state);
    else if (typeof value === 'boolean') lua.lua_pushboolean(state, value ? 1 : 0);
    else if (typeof value === 'bigint') lua.lua_pushinteger(state, value);
    else if (typeof value === 'number') lua.lua_pushnumber(state, value);
    else if (typeof value === 'symbol') lua.lua_pushlightuserdata(state, 0);
    else if (typeof value === 'string') {
      const pointer = this.#copyIn(value);
      this.#memory.pushString(state, pointer, value.length);
      this.#memory.free(pointer);
    } else if (value instanceof Map) {
      lua.lua_createtable(state, 0, value.size);
      for (const [name, field] of value) {
        this.#push(state, name);
        this.#push(state, field, depth + 1);
        lua.lua_rawset(state, -3);
      }
    } else {
      lua.lua_createtable(state, value.length, 0);
      for (const [at, item] of value.entries()) {
        this.#push(state, item, depth + 1);
        lua.lua_rawseti(state, -2, BigInt(at + 1));
      }
    }
  }

  #read(state: number, index: number, depth = 0): LuaValue {
    const lua = this.#lua;
    if (depth > DEPTH) throw new LuaError('reached lua stack limit');
    const type: number = lua.lua_type(state, index);
    switch (type) {
      case TYPE.boolean:
        return lua.lua_toboolean(state, index) === 1;
      case TYPE.number:
        return lua.lua_isinteger(state, index) === 1
          ? lua.lua_tointegerx(state, index, 0)
          : lua.lua_tonumberx(state, index, 0);
      case TYPE.string: {
        const pointer = this.#memory.toString(state, index, this.#scratch);
        const memory = this.#memory.bytes();
        return memory.toString('latin1', pointer, pointer + memory.readUInt32LE(this.#scratch));
      }
      case TYPE.light:
        return LUA_NULL;
      case TYPE.table:
        return this.#readTable(state, index, depth);
      default:
        return null;
    }
  }

  /** Reads a table as a list if it has items 1 to n and nothing else. */
  #readTable(state: number, index: number, depth: number): LuaValue {
    const lua = this.#lua;
    const table = lua.lua_gettop(state) + 1;
    const at = index > 0 ? index : table + index;
    const fields = new Map<Bytes | bigint, LuaValue>();
    const list: LuaValue[] = [];
    lua.lua_pushnil(state);
    while (lua.lua_next(state, at) !== 0) {
      const name = this.#read(state, -2, depth + 1);
      const value = this.#read(state, -1, depth + 1);
      if (typeof name === 'string' || typeof name === 'bigint') fields.set(name, value);
      else if (typeof name === 'number') fields.set(String(name), value);
      lua.lua_settop(state, -2);
    }
    for (let item = 1n; fields.has(item); item += 1n) list.push(fields.get(item) ?? null);
    return list.length > 0 && list.length === fields.size ? list : fields;
  }

  #popText(): string {
    const value = this.#read(this.#state, -1);
    this.#lua.lua_settop(this.#state, 0);
    return typeof value === 'string' ? value : 'script failed';
  }
}
