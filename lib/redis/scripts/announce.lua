-- Announces an enqueue before its message is sent, when SQS has not given it a time yet. So announced enqueues have no order: the
-- uri is queued as long as one of them has no outcome.
--
-- KEYS: state; and that of the request's key, if it has one.
-- ARGV[1]: options
--   identity, ttlMs
--   payload    digest of the message; it belongs to the enqueue that the field `last` names
--   request    digest of the request; absent without a key
-- Returns 1; 0, having changed nothing, when the key was used for another request.

-- @include includes/identities.lua

local options = cjson.decode(ARGV[1])
local identity, ttl, request = options.identity, options.ttlMs, options.request
if request then
  local used = redis.call('GET', KEYS[2])
  if used and used ~= request then return 0 end
  redis.call('SET', KEYS[2], request, 'PX', ttl)
end
local held = redis.call('HMGET', KEYS[1], 'pending', 'done')
local pending = not held[2] and held[1] or ''
redis.call('HSET', KEYS[1], 'payload', options.payload, 'last', identity, 'pending', withFirst(pending, identity))
-- Set once every announced enqueue has its outcome.
redis.call('HDEL', KEYS[1], 'done')
redis.call('PEXPIRE', KEYS[1], ttl)
return 1
