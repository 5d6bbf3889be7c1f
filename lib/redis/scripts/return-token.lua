-- Gives a token back whose request does not use it.
--
-- KEYS: the bucket.
-- ARGV[1]: options
--   tokensPerSecond
-- Returns nothing.

local full = tonumber(redis.call('GET', KEYS[1]) or 0)
local left = redis.call('PTTL', KEYS[1])
local interval = 1000 / cjson.decode(ARGV[1]).tokensPerSecond
if left > 0 then redis.call('SET', KEYS[1], string.format('%.3f', full - interval), 'PX', left) end
