-- Reads the slots of a cluster that may have results.
--
-- KEYS: list.
-- Returns now in ms, then each home and its score.

-- @include includes/clock.lua

local found = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
table.insert(found, 1, string.format('%.0f', today))
return found
