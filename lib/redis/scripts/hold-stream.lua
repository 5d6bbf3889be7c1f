-- Takes or keeps the lease of a stream. It has no time to live, because the clock of Redis may be set.
--
-- KEYS: lease.
-- ARGV[1]: options
--   holder, beat    what the lease then says
--   silent          what a holder left that has been silent for too long, and may be replaced
-- Returns what another holder left; '' when the lease is ours.

local options = cjson.decode(ARGV[1])
local held, ours = redis.call('GET', KEYS[1]), options.holder .. ' '
if held and string.sub(held, 1, #ours) ~= ours and held ~= options.silent then return held end
redis.call('SET', KEYS[1], ours .. options.beat)
return ''
