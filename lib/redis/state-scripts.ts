/**
 * The Lua scripts that keep the state of a uri (record-states.ts). A client announces an enqueue before it sends the
 * message, when SQS has not given it a time yet, so announced enqueues have no order: the uri is queued as long as one of
 * them has no outcome.
 */
import { ORDER } from './order.ts';
import { script, TODAY } from './scripts.ts';

/**
 * KEYS: state, and that of the request's key if it has one. ARGV: identity, payload, ttl ms, digest of the request. Returns 0,
 * and changes nothing, when the key was used for another request. The field `payload` belongs to the enqueue named by `last`. The field `done` is set once every announced enqueue has its outcome.
 */
const ANNOUNCE = `${ORDER}
if KEYS[2] then
  local used = redis.call('GET', KEYS[2])
  if used and used ~= ARGV[4] then return 0 end
  redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[3])
end
local held = redis.call('HMGET', KEYS[1], 'pending', 'done')
local pending = not held[2] and held[1] or ''
redis.call('HSET', KEYS[1], 'payload', ARGV[2], 'last', ARGV[1], 'pending', withFirst(pending, ARGV[1]))
redis.call('HDEL', KEYS[1], 'done')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;
export const announceEnqueue = script<number>('announceEnqueue', ANNOUNCE);

/** Removes the announcement of a record that could not be sent. KEYS: state, result. ARGV: identity. */
const WITHDRAW = `${ORDER}
local held = redis.call('HMGET', KEYS[1], 'pending', 'done')
if held[2] or not held[1] or not has(held[1], ARGV[1]) then return 0 end
local left = without(held[1], ARGV[1])
if left ~= '' or redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('HSET', KEYS[1], 'pending', left)
  if left == '' then redis.call('HSET', KEYS[1], 'done', 1) end
else
  redis.call('DEL', KEYS[1])
end
return 1`;
export const withdrawEnqueue = script<number>('withdrawEnqueue', WITHDRAW);

/**
 * KEYS: result, state, idempotency record, index. ARGV: uri, now ms, ttl ms, error, channel, the latest place in the order
 * that the queue gave (0: not known). Returns 0 when every known enqueue has its outcome. A cancellation is later than every
 * enqueue up to now by the clock of Redis. The clock of SQS may be ahead, so the announced enqueues are also listed by their
 * identities; and behind, so what is announced after a cancellation is later than it (save-script.ts).
 */
const CANCEL = `${ORDER}${TODAY}
local status = redis.call('HGET', KEYS[1], 'status')
local held = redis.call('HMGET', KEYS[2], 'pending', 'done')
local newest = redis.call('GET', KEYS[3])
local pending = not held[2] and held[1] or ''
if pending == '' then
  if status == 'cancelled' then return 1 end
  if newest or held[2] or redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'status', 'cancelled', 'value', 'NaN', 'error', ARGV[4], 'model', '', 'finishedAt', ARGV[2],
  'identity', '')
if pending ~= '' then redis.call('HSET', KEYS[1], 'cancelled', pending) end
if newest then redis.call('HSET', KEYS[1], 'after', newest) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[3], orderOfCancellation(math.max(today, tonumber(ARGV[6])), newest), 'PX', ARGV[3])
if redis.call('PEXPIRE', KEYS[2], ARGV[3]) == 1 then redis.call('HSET', KEYS[2], 'pending', '', 'done', 1) end
redis.call('ZADD', KEYS[4], today + ARGV[3], ARGV[1])
if redis.call('PTTL', KEYS[4]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[4], ARGV[3]) end
redis.call('PUBLISH', ARGV[5], 'cancelled')
return 1`;
export const cancelUri = script<number>('cancelUri', CANCEL);

/**
 * KEYS: states. ARGV: how long the mark holds, in ms by the clock of Redis, then the identity of each record. Marks only
 * announced records without an outcome. A key of another type is left alone (pcall).
 */
const MARK_RUNNING = `${ORDER}${TODAY}
local over = string.format('%.0f', today + ARGV[1])
for i = 1, #KEYS do
  local held, identity = redis.pcall('HMGET', KEYS[i], 'pending', 'done'), ARGV[i + 1]
  if held[1] and not held[2] and has(held[1], identity) then
    redis.call('HSET', KEYS[i], 'running', over, 'runs', identity)
  end
end
return 0`;
export const markRunning = script<number>('markRunning', MARK_RUNNING);
