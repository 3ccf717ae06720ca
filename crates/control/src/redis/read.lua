-- Reads. ARGV: for each read its kind and its arguments.
local reads = {
  row = function()
    return call('HGET', key('table', take()), take())
  end,
  rows = function()
    return call('HGETALL', key('table', take()))
  end,
  -- {length, first, records}
  records = function()
    local log, from, limit = take(), tonumber(take()), tonumber(take())
    local all, lost = length(log)
    local first = math.max(from, lost)
    local records = {}
    if limit > 0 and first < all then
      records = call('LRANGE', key('log', log), first - lost, first - lost + limit - 1)
    end
    return {all, first, records}
  end,
  waiting = function()
    return call('LLEN', key('queue', take()))
  end,
  -- {token, remaining, holder}
  holding = function()
    local token, holder, remaining = held(take())
    return token and {tonumber(token), remaining, holder}
  end,
}

local found = {}
while at < #ARGV do
  found[#found + 1] = reads[take()]() or false
end
return found
