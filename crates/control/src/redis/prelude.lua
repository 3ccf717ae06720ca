-- What all scripts begin with. KEYS[1] is `{namespace}`, with which every key starts: all are in one slot.
local call = redis.call
local base = KEYS[1]
-- The keys of tables, logs and queues that may be there; the version of the last transaction; for each log
-- that was trimmed, how many records it lost; for each lease, `token expiry ttl holder`.
local index, counter = base .. ':index', base .. ':counter'
local trimmed, leases = base .. ':trimmed', base .. ':leases'

local function key(kind, name)
  return base .. ':' .. kind .. ':' .. name
end

local at = 0
local function take()
  at = at + 1
  return ARGV[at]
end

local function length(log)
  local lost = tonumber(call('HGET', trimmed, log) or 0)
  return lost + call('LLEN', key('log', log)), lost
end

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function grant(lease, token, ttl, holder)
  call('HSET', leases, lease, string.format('%.0f %.0f %.0f ', token, now + ttl, ttl) .. holder)
end

-- The token, holder and remaining time of a lease that has not lapsed. If more of it is left than it was
-- granted, the clock was set back: it lasts as long as it was granted from now on, and not until the clock is
-- again where it was.
local function held(lease)
  local saved = call('HGET', leases, lease)
  if not saved then return nil end
  local token, expires, ttl, holder = string.match(saved, '^(%d+) (%d+) (%d+) (.*)$')
  local remaining = expires - now
  if remaining > tonumber(ttl) then
    remaining = tonumber(ttl)
    grant(lease, token, ttl, holder)
  end
  if remaining <= 0 then return nil end
  return token, holder, remaining
end

