-- The order of all enqueues of a uri, which lib/results/order.ts describes. `<` compares texts by the locale of the server, so
-- bytes are compared one by one.
local function orderOf(text)
  local sent, identity, settled, replays = string.match(text, '^(%d+) ([^%s,]*)(%S*) ?(%d*)$')
  return tonumber(sent) or 0, identity or '', tonumber(replays) or 0, settled or ''
end
local function bytesAfter(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a > b end
  end
  return #one > #other
end
local function isLater(one, other)
  if one == other then return false end
  local sent, identity, replays = orderOf(one)
  local sentBefore, identityBefore, replaysBefore = orderOf(other)
  if identity == identityBefore then return replays > replaysBefore end
  if sent ~= sentBefore then return sent > sentBefore end
  return bytesAfter(identity, identityBefore)
end
-- True if an enqueue had its outcome, or was cancelled, before the one that an idempotency record names.
local function isSettled(record, identity)
  local _, _, _, settled = orderOf(record)
  return settled ~= '' and string.find(settled .. ',', ',' .. identity .. ',', 1, true) ~= nil
end
-- Adds identities to an idempotency record, the latest first and fourteen at most.
local function withSettled(record, identities)
  local head, settled, tail = string.match(record, '^(%d+ [^%s,]*)(%S*)( ?%d*)$')
  if not head then return record end
  local _, own = orderOf(record)
  local all, known = {''}, {[own] = true, ['~'] = true}
  for one in string.gmatch(identities .. settled, '[^%s,]+') do
    if #all <= 14 and not known[one] then all[#all + 1], known[one] = one, true end
  end
  return head .. table.concat(all, ',') .. tail
end
-- The idempotency record that follows on another one, if there is one.
local function recordAfter(order, record)
  if not record then return order end
  local _, identity, _, settled = orderOf(record)
  return withSettled(order, identity .. settled)
end
