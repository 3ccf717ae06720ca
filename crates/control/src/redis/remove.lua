-- Removes all but the counter and the outcomes, some keys at a time: Lua passes on no more than some
-- thousands.
repeat
  local names = call('SPOP', index, 1000)
  if #names > 0 then call('UNLINK', unpack(names)) end
until #names == 0
call('UNLINK', trimmed, leases)
return {}
