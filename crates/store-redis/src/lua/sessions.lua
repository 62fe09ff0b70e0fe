-- A session is one packed list: version of the layout, version of the record (0 for a tombstone), nonce of the last change,
-- standalone stream, record.
local VERSION, LAST_CHANGE, ITS_STREAM, RECORD = 2, 3, 4, 5

-- KEYS session
-- ARGV nonce, standalone stream, record, ttl
function actions.open_session(keys, args)
  local session = load(keys[1])
  if session then
    return { session[VERSION] == 1 and session[LAST_CHANGE] == args[1] and 'ok' or 'exists' }
  end
  redis.call('SET', keys[1], cmsgpack.pack({ 1, 1, args[1], args[2], args[3] }), 'PX', args[4])
  return { 'ok' }
end

-- KEYS session
function actions.load_session(keys)
  local session = load(keys[1])
  if not session then
    return { 'unknown' }
  elseif session[VERSION] == 0 then
    return { 'ended' }
  end
  return { 'live', session[VERSION], session[RECORD] }
end

-- KEYS session
-- ARGV nonce, version, standalone stream, record
function actions.update_session(keys, args)
  local session = load(keys[1])
  if not session or session[VERSION] == 0 then
    return { 'gone' }
  end
  local version = tonumber(args[2])
  if session[VERSION] == version + 1 and session[LAST_CHANGE] == args[1] then
    return { 'ok', version + 1 }
  elseif session[VERSION] ~= version then
    return { 'conflict' }
  end
  session[VERSION], session[LAST_CHANGE], session[ITS_STREAM], session[RECORD] = version + 1, args[1], args[3], args[4]
  save(keys[1], session)
  return { 'ok', version + 1 }
end

-- KEYS session
-- ARGV ttl
function actions.touch_session(keys, args)
  local session = load(keys[1])
  if session and session[VERSION] ~= 0 then
    prolong(keys[1], tonumber(args[1]))
  end
  return { 'ok' }
end

-- KEYS session
-- ARGV nonce, ttl of the tombstone
function actions.end_session(keys, args)
  local session = load(keys[1])
  if not session then
    return { 'unknown' }
  elseif session[VERSION] == 0 then
    return { session[LAST_CHANGE] == args[1] and 'ok' or 'ended', session[ITS_STREAM] }
  end
  redis.call('SET', keys[1], cmsgpack.pack({ 1, 0, args[1], session[ITS_STREAM], '' }), 'PX', args[2])
  return { 'ok', session[ITS_STREAM] }
end
