-- Lists the slots of a cluster that get results. The score is when each was listed last.
--
-- KEYS: list.
-- ARGV[1]: options
--   ttlMs
--   homes    list
-- Returns nothing.

-- @include includes/clock.lua

local options = cjson.decode(ARGV[1])
for _, home in ipairs(options.homes) do redis.call('ZADD', KEYS[1], today, home) end
if redis.call('PTTL', KEYS[1]) < tonumber(options.ttlMs) then redis.call('PEXPIRE', KEYS[1], options.ttlMs) end
