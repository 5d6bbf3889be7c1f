-- Gives the lease of a stream back, if it is ours.
--
-- KEYS: lease.
-- ARGV[1]: options
--   holder
-- Returns nothing.

local held, ours = redis.call('GET', KEYS[1]), cjson.decode(ARGV[1]).holder .. ' '
if held and string.sub(held, 1, #ours) == ours then redis.call('DEL', KEYS[1]) end
