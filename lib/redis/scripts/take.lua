-- Moves each result from its own key to a lease key, without copying it. A client whose answer was lost asks again with the same
-- lease key and finds the result there. A cancellation is not moved, because it keeps a record that is still in the queue from
-- getting a result. Nor is a large result, whose client has yet to fetch it from S3: it is moved when the client asks for it by
-- its id (idOfLarge), having fetched it. RENAME allocates nothing, so a full Redis can be emptied; only the note of the time to
-- live that was left needs memory, and a full Redis goes without it: a result that is released then lives as long as its lease
-- would have.
--
-- KEYS: index; then for each record its result, its state and its lease key.
-- ARGV[1]: options
--   leaseMs, maxBytes    time to live of a lease; limit of all results together
--   maxBytesOfOne        a first result above it only leaves the index
--   identity             only the result of this enqueue; absent: any
--   large                what large results do: 'list' (stay and leave the index), '' (stay), or the id of the only one that moves
--   uris                 list
-- Returns for each record: whether it was in the index; the fields of a result that was not moved, or the text of an error; the
-- time to live it had left, in ms. Returns fewer records than asked for when the next one would exceed the limit of all.

-- @include includes/clock.lua
-- @include includes/identities.lua

local call, pcall = redis.call, redis.pcall
local options = cjson.decode(ARGV[1])
local wanted, fetched, budget = options.identity, options.large, tonumber(options.maxBytes)

local function bytes(key)
  return call('HSTRLEN', key, 'value') + call('HSTRLEN', key, 'exact') + call('HSTRLEN', key, 'error')
end

local function isWanted(status, identity, cancelled)
  if not wanted then return true end
  if status == 'cancelled' then return has(cancelled or '', wanted) end
  return identity == wanted
end

local function isFetched(large)
  return fetched == '' or fetched == 'list' or string.find(large, fetched, 1, true)
end

-- By its place in the index, so that what is released keeps its order: the clock behind PTTL goes on while a script runs.
local function leftOf(result, uri)
  local left, listed = call('PTTL', result), call('ZSCORE', KEYS[1], uri)
  if left < 0 or not listed then return left end
  return math.max(1, tonumber(listed) - today)
end

local replies = {}
for i, uri in ipairs(options.uris) do
  local result, state, held = KEYS[i * 3 - 1], KEYS[i * 3], KEYS[i * 3 + 1]
  if call('EXISTS', held) == 1 then
    replies[i] = {1, {}, tonumber(call('HGET', held, 'left') or call('PTTL', held))}
  else
    local facts = pcall('HMGET', result, 'status', 'identity', 'cancelled', 'large')
    local status, identity, cancelled, large = unpack(facts)
    if facts.err then
      replies[i] = {call('ZREM', KEYS[1], uri), facts.err, 0}
    elseif not (isWanted(status, identity, cancelled) and isFetched(large or '')) then
      replies[i] = {0, {}, 0}
    elseif large and fetched == '' then
      replies[i] = {0, call('HGETALL', result), call('PTTL', result)}
    else
      local size = bytes(result)
      if size > tonumber(options.maxBytesOfOne) and i == 1 then
        replies[i] = {call('ZREM', KEYS[1], uri), 'too large', 0}
        break
      end
      if size > budget and i > 1 then break end
      budget = budget - size
      local left, listed = leftOf(result, uri), call('ZREM', KEYS[1], uri)
      if status == 'cancelled' or large and fetched == 'list' then
        replies[i] = {listed, call('HGETALL', result), left}
      else
        if left ~= -2 then
          call('RENAME', result, held)
          call('PEXPIRE', held, options.leaseMs)
          -- The error of a foreign key has neither.
          local waiting = pcall('HMGET', state, 'pending', 'done')
          if waiting[2] or (waiting[1] or '') == '' then call('DEL', state) end
          pcall('HSET', held, 'left', left)
        end
        replies[i] = {listed, {}, left}
      end
    end
  end
end
return replies
