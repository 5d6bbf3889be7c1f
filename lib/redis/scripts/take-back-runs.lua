-- Takes back the runs that ended with an outcome. No delivery has the number 0, so the same one can be counted again.
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
  if delivery == options.deliveries[i] then
    if runs > 1 then redis.call('SET', key, string.format('%d 0', runs - 1), 'PX', options.ttlMs)
    else redis.call('DEL', key) end
  end
end
