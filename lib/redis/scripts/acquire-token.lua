-- Takes a token from a bucket that is stored as one number, the time at which it would be full again (GCRA). It holds the tokens
-- of one second. No bucket is full later than by a minute, twice the longest wait that a setting allows: then the clock of Redis
-- was set back.
--
-- KEYS: the bucket.
-- ARGV[1]: options
--   tokensPerSecond
--   maxWaitMs    the longest wait for a token
-- Returns the wait in ms, or -1 - (ms to come back).

local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local options = cjson.decode(ARGV[1])
local rate = tonumber(options.tokensPerSecond)
local interval = 1000 / rate
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
if full - now > (math.max(1, rate) + 1) * interval + 60000 then full = now end
local wait = math.max(0, full - now - (math.max(1, rate) - 1) * interval)
if wait > tonumber(options.maxWaitMs) then return -1 - math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.3f', full + interval), 'PX', math.ceil(full + interval - now) + 1000)
return math.ceil(wait)
