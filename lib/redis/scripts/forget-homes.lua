-- Removes slots that were not listed again since they were read.
--
-- KEYS: list.
-- ARGV[1]: options
--   homes    list of { home, score }
-- Returns nothing.

for _, one in ipairs(cjson.decode(ARGV[1]).homes) do
  if redis.call('ZSCORE', KEYS[1], one[1]) == one[2] then redis.call('ZREM', KEYS[1], one[1]) end
end
