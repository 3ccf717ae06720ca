-- Applies transactions. ARGV: for how many milliseconds outcomes are remembered; for each transaction its id,
-- how many arguments follow, how many conditions, the conditions, the effects.
--
-- Nothing here can fail after the first write of a transaction: Redis does not undo what a script wrote.
local version

local conditions = {
  version = function()
    local row = call('HGET', key('table', take()), take())
    local expected = take()
    return row and string.match(row, '^%d+') == expected
  end,
  absent = function()
    return call('HEXISTS', key('table', take()), take()) == 0
  end,
  length = function()
    return length(take()) == tonumber(take())
  end,
  held = function()
    local token = held(take())
    return take() == token
  end,
  free = function()
    return held(take()) == nil
  end,
}

local function remove(kind)
  local name = key(kind, take())
  call('UNLINK', name)
  call('SREM', index, name)
end

local effects = {
  put = function()
    local name = key('table', take())
    call('HSET', name, take(), version .. ' ' .. take())
    call('SADD', index, name)
  end,
  delete = function()
    call('HDEL', key('table', take()), take())
  end,
  remove_table = function()
    remove('table')
  end,
  append = function()
    local name = key('log', take())
    call('RPUSH', name, take())
    call('SADD', index, name)
  end,
  trim = function()
    local log, before = take(), tonumber(take())
    local all, lost = length(log)
    before = math.min(before, all)
    if before > lost then
      call('LTRIM', key('log', log), before - lost, -1)
      call('HSET', trimmed, log, string.format('%.0f', before))
    end
  end,
  remove_log = function()
    call('HDEL', trimmed, ARGV[at + 1])
    remove('log')
  end,
  push = function()
    local name = key('queue', take())
    call('RPUSH', name, take())
    call('SADD', index, name)
  end,
  pop = function(popped)
    popped[#popped + 1] = {call('LPOP', key('queue', take())) or nil}
  end,
  remove_queue = function()
    remove('queue')
  end,
  publish = function()
    call('PUBLISH', key('topic', take()), take())
  end,
  grant = function()
    grant(take(), version, take(), take())
  end,
  renew = function()
    local lease, ttl = take(), take()
    local token, holder = held(lease)
    if token then grant(lease, token, ttl, holder) end
  end,
  release = function()
    call('HDEL', leases, take())
  end,
}

-- The first condition that does not hold.
local function conflict()
  for condition = 1, tonumber(take()) do
    if not conditions[take()]() then return condition - 1 end
  end
end

-- {0, condition} or {1, version, {element}, {}, ...}
local function outcome(last)
  local failed = conflict()
  if failed then return {0, failed} end
  local number = call('INCR', counter)
  version = string.format('%.0f', number)
  local applied = {1, number}
  while at < last do
    effects[take()](applied)
  end
  return applied
end

local remembered = take()
local outcomes = {}
while at < #ARGV do
  local id = key('outcome', take())
  local arguments = tonumber(take())
  local last = at + arguments
  local saved = call('GET', id)
  if saved then
    outcomes[#outcomes + 1] = cmsgpack.unpack(saved)
  else
    local fresh = outcome(last)
    call('SET', id, cmsgpack.pack(fresh), 'PX', remembered)
    outcomes[#outcomes + 1] = fresh
  end
  at = last
end
return outcomes
