/**
 * The Lua script that saves the outcomes of a batch. It keeps Redis busy for about as long as a small model keeps
 * onnxruntime, so it reads and writes for all records at once wherever that is possible.
 */
import { SERVING_FIELD, SINCE_FIELD } from '../../metrics/fields.ts';
import { CANCELLATION, ORDER } from '../order.ts';
import { TODAY } from '../scripts.ts';

/**
 * How many expired entries one call removes from the index, besides two for each entry that it adds. After a lull there
 * can be a million; removing them all in one call kept Redis busy for 0.4 s.
 */
const EXPIRED_PER_CALL = 1_000;

/** The number of arguments before the metrics. */
const HEAD = 10;

/**
 * An outcome becomes the result of its uri when its enqueue is later than every enqueue that has had an outcome. Without an
 * idempotency record, which a full Redis may have evicted, it is when it was sent after the result was finished.
 * A cancellation removes all announcements of its uri, so what is announced came after it, whatever the clocks of SQS and Redis
 * say.
 */
const IS_NEW = `
local function isAnnouncedAfter(held, state, identity)
  local _, cancellation = orderOf(held)
  if cancellation ~= '${CANCELLATION}' then return false end
  local pending = pcall('HGET', state, 'pending')
  return type(pending) == 'string' and has(pending, identity)
end
local function isNew(key, status, held, order, identity, state)
  if held and not isLater(order, held) and not isAnnouncedAfter(held, state, identity) then return false end
  if not status then return true end
  local was = call('HMGET', key, 'identity', 'finishedAt', 'cancelled')
  if was[3] and has(was[3], identity) then return false end
  return held or was[1] ~= identity and orderOf(order) > (tonumber(was[2] or '') or 0)
end`;

/** A record that a cancellation came before has that as its outcome, unless it is older than what was there before. */
const NOTE_CANCELLED = `
local function noteCancelled(key, order)
  local was = call('HMGET', key, 'after', 'cancelled')
  local _, identity = orderOf(order)
  if identity == '' or was[1] and not isLater(order, was[1]) then return end
  call('HSET', key, 'cancelled', withFirst(was[2] or '', identity))
end`;

/** Removes an enqueue from `pending` once it has an outcome. */
const SETTLE = `
local function settle(state, identity)
  local pending = pcall('HGET', state, 'pending')
  if type(pending) ~= 'string' then return end
  local left = without(pending, identity)
  if left == pending then return end
  call('HSET', state, 'pending', left)
  if left ~= '' then return end
  call('HSET', state, 'done', 1)
  call('PEXPIRE', state, 2 * ttl)
end`;

/**
 * KEYS: index, metrics, and then what else it touches, which only a cluster needs to know. ARGV: ttl ms, now ms, model,
 * channel prefix, metrics ttl ms, number of metric pairs, state prefix, prefix and ttl ms of idempotency records, prefix of results; then those pairs, then as one JSON list the
 * texts of each record (uri, status, error, outputs, exact, order, large), because each argument costs the
 * client and Redis more than its bytes; then the value of each record, which may be long.
 * Returns how many were written and the places (from 0) of those whose key holds something else than a hash.
 * A client's retry of an enqueue that has its outcome moves its place in the order, and changes nothing else: what was sent
 * before the retry is earlier than it, in whichever order they are delivered.
 * What somebody else put under one of our names costs that record, or the metrics, and no neighbour; a foreign index is
 * reported before anything is written.
 */
export const SAVE = `${ORDER}
local call, pcall = redis.call, redis.pcall
local ttl, now, model, channel, pairs = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])
local first = ${HEAD + 1} + pairs * 2
local records = cjson.decode(ARGV[first])
if #records > 0 then call('ZCARD', KEYS[1]) end${TODAY}${IS_NEW}${NOTE_CANCELLED}${SETTLE}
if pairs > 0 then
  local counted = 0
  for i = 1, pairs do
    counted = pcall('HINCRBYFLOAT', KEYS[2], ARGV[${HEAD - 1} + i * 2], ARGV[${HEAD} + i * 2])
    if type(counted) == 'table' then break end
  end
  if type(counted) ~= 'table' then
    call('HSETNX', KEYS[2], '${SINCE_FIELD}', now)
    if model ~= '' and call('HSET', KEYS[2], '${SERVING_FIELD}' .. model, now) == 1 then
      local all = call('HGETALL', KEYS[2])
      for i = 1, #all, 2 do
        local isServing = string.sub(all[i], 1, ${SERVING_FIELD.length}) == '${SERVING_FIELD}'
        if isServing and now - all[i + 1] > tonumber(ARGV[5]) then call('HDEL', KEYS[2], all[i]) end
      end
    end
    call('PEXPIRE', KEYS[2], ARGV[5])
  end
end
local states, newest = {}, {}
for i, record in ipairs(records) do
  states[i], newest[i] = ARGV[7] .. record[1], ARGV[8] .. record[1]
end
local announced = #states > 0 and call('EXISTS', unpack(states)) > 0
local orders, latest = #newest > 0 and call('MGET', unpack(newest)) or {}, {}
local fields, count = {'HSET', '', 'status', '', 'value', '', 'model', model, 'finishedAt', now, 'identity', ''}, 12
local function put(name, text)
  if text == '' then return end
  fields[count + 1], fields[count + 2] = name, text
  count = count + 2
end
local replies, listed, expiry = {0}, {}, today + ttl
for i, record in ipairs(records) do
  local uri, status, order = record[1], record[2], record[6]
  local key = ARGV[10] .. uri
  local held = latest[key] or orders[i]
  local before = pcall('HGET', key, 'status')
  if type(before) == 'table' then
    if string.sub(before.err, 1, 9) ~= 'WRONGTYPE' then return before end
    replies[#replies + 1] = i - 1
  else
    local _, identity, replays = orderOf(order)
    local written = isNew(key, before, held, order, identity, states[i])
    if written then
      if before then call('DEL', key) end
      fields[2], fields[4], fields[6], fields[12], count = key, status, ARGV[first + i], identity, 12
      put('error', record[3])
      put('outputs', record[4])
      put('exact', record[5])
      put('large', record[7])
      if replays > 0 then put('replays', replays) end
      call(unpack(fields, 1, count))
      call('PEXPIRE', key, ttl)
      call('SET', newest[i], order, 'PX', ARGV[9])
      latest[key] = order
      listed[#listed + 1] = expiry
      listed[#listed + 1] = uri
      call('PUBLISH', channel .. uri, status)
      replies[1] = replies[1] + 1
    elseif held and isRetry(order, held) then
      call('SET', newest[i], order, 'PX', ARGV[9])
      latest[key] = order
    elseif before == 'cancelled' and held then
      noteCancelled(key, order)
    end
    if announced then settle(states[i], identity) end
  end
end
if replies[1] > 0 then
  call('ZADD', KEYS[1], unpack(listed))
  local late = call('ZCOUNT', KEYS[1], '-inf', '(' .. today)
  if late > 0 then
    call('ZREMRANGEBYRANK', KEYS[1], 0, math.min(late, 2 * replies[1] + ${EXPIRED_PER_CALL}) - 1)
  end
  if call('PTTL', KEYS[1]) < tonumber(ttl) then call('PEXPIRE', KEYS[1], ttl) end
end
return replies`;
