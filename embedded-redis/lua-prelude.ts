/**
 * The Lua code that sets up what scripts see, ending in the function that loads, forgets and runs them. One Lua state
 * serves all scripts, so they get read-only wrappers and no function that bypasses these (rawset, debug, binary
 * chunks).
 */
export const PRELUDE = `
local call, pcall_redis, sha1hex, encode, decode, null = ...
local getinfo, compile, mathtype, format = debug.getinfo, load, math.type, string.format
local function readonly() error('Attempt to modify a readonly table', 2) end
local function protect(fields)
  return setmetatable({}, { __index = fields, __newindex = readonly, __metatable = false })
end
getmetatable('').__metatable = false
math.pow = function(a, b) return a ^ b end
table.getn = function(list) return #list end

local function tagged(tag, text)
  if type(text) ~= 'string' then return { err = 'ERR wrong number or type of arguments' } end
  return { [tag] = text }
end
local redis = {
  call = call, pcall = pcall_redis, sha1hex = sha1hex,
  error_reply = function(text)
    local reply = tagged('err', text)
    if reply.err:sub(1, 1) == '-' then reply.err = reply.err:sub(2) end
    if not reply.err:find(' ') then reply.err = 'ERR ' .. reply.err end
    return reply
  end,
  status_reply = function(text) return tagged('ok', text) end,
  log = function() end, replicate_commands = function() return true end,
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
}

local globals, env = {
  redis = protect(redis), cjson = protect({ encode = encode, decode = decode, null = null }),
  string = protect(string), table = protect(table), math = protect(math), coroutine = protect(coroutine),
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next, pairs = pairs,
  rawequal = rawequal, rawget = rawget, select = select, setmetatable = setmetatable, tonumber = tonumber,
  type = type, unpack = table.unpack, xpcall = xpcall, _VERSION = _VERSION,
}, {}
globals._G = env
setmetatable(env, {
  __metatable = false,
  __newindex = readonly,
  __index = function(_, name)
    if globals[name] ~= nil then return globals[name] end
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})
-- As in Lua 5.1: 10 / 2 is "5", not "5.0".
globals.tostring = function(value)
  return mathtype(value) == 'float' and format('%.14g', value) or tostring(value)
end
globals.load = function(text, name) return compile(text, name, 't', env) end
globals.loadstring = globals.load
-- As in Redis: what redis.call has raised arrives as text.
local function plain(ok, problem, ...)
  if not ok and type(problem) == 'table' and problem.err then return ok, problem.err end
  return ok, problem, ...
end
globals.pcall = function(...) return plain(pcall(...)) end

local function failed(problem)
  local text = type(problem) == 'table' and problem.err or 'ERR ' .. tostring(problem)
  for level = 2, 20 do
    local info = getinfo(level, 'Sl')
    if not info then break end
    if info.short_src == 'user_script' then return { err = text, line = info.currentline } end
  end
  return { err = text }
end

local scripts = {}
return function(what, sha, first, second)
  if what == 'load' then
    local problem
    scripts[sha], problem = compile(first, '@user_script', 't', env)
    return problem
  elseif what == 'forget' then
    scripts[sha] = nil
  else
    globals.KEYS, globals.ARGV = first, second
    local ok, value = xpcall(scripts[sha], failed)
    return ok, value
  end
end
`;
