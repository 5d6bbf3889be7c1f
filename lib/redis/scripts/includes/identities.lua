-- Lists of identities: texts separated by spaces. `without` returns a list unchanged when the identity is not in it.
local function has(list, identity)
  return identity ~= '' and string.find(' ' .. list .. ' ', ' ' .. identity .. ' ', 1, true) ~= nil
end
local function without(list, identity)
  if not has(list, identity) then return list end
  local left = {}
  for one in string.gmatch(list, '%S+') do
    if one ~= identity then left[#left + 1] = one end
  end
  return table.concat(left, ' ')
end
-- Seven are listed unless a caller says more: one that seven others followed no longer matters.
local function withFirst(list, identity, most)
  local all = {identity}
  for one in string.gmatch(without(list, identity), '%S+') do
    if #all < (most or 7) then all[#all + 1] = one end
  end
  return table.concat(all, ' ')
end
