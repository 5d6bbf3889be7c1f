-- Counts a run of each record before it begins. A delivery is counted once, however often its command is sent.
--
-- KEYS: one for each record.
-- ARGV[1]: options
--   ttlMs
--   deliveries    list, the number of each record's delivery
-- Returns nothing.

-- @include includes/run-count.lua

local options = cjson.decode(ARGV[1])
for i, key in ipairs(KEYS) do
  local runs, delivery = held(key)
  local this = options.deliveries[i]
  if delivery ~= this then redis.call('SET', key, string.format('%d %s', runs + 1, this), 'PX', options.ttlMs) end
end
