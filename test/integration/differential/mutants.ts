import type { PlantedMistake } from '../../support/planted/planted-mistake.js';

/** A change to the text of one script or statement. */
export type Mutation = (file: string, text: string) => string;

/** What a server of Redis may lack: script flags before version 7, and free memory. */
export type Missing = 'flags' | 'memory';

interface Mistake extends PlantedMistake {
  readonly mutate: Mutation;
}

interface LuaMistake extends Mistake {
  /** What the server lacks where the mistake has an effect. */
  readonly without?: readonly Missing[];
  /** Whether it has an effect on large outcomes alone. */
  readonly isLarge?: boolean;
}

const NOW = `date_trunc('milliseconds', statement_timestamp())`;

const ABSENT = "if value == '' then\n  ";
const INSTANT = "time[1] .. string.sub('00000' .. time[2], -6)";
const OWN_RECORD = 'string.sub(value, 1, #ARGV[2]) == ARGV[2]';
const HELD_BY_TOKEN = ["mine and (ownFence == '0' or fence == ownFence)", 'mine'] as const;
const WITHOUT_NOTE = "string.match(value, '^..(%d+ %S+ %d+ %d+ %S+)') .. '\\n'";
const FIRST_LINE = 'local nonce = ARGV[1]\n';
const ALLOW_OOM = '#!lua flags=allow-oom\n';
const HARMLESS_WRITE = "redis.call('PEXPIREAT', KEYS[1], at) -- without allow-oom\n";

/** Mistakes that other libraries have made, or that are easy to make here. */
export const LUA_MISTAKES: readonly LuaMistake[] = [
  lua('begin', 'a resent begin of the owner acquires again', [
    'elseif mine then',
    'elseif false then',
  ]),
  lua('begin', 'another request with the key of a finished one is not detected', [
    'if content ~= ARGV[3] then',
    'if false then',
  ]),
  lua('begin', 'a replay exists in the millisecond of its expiry', [
    'now < tonumber(expires)',
    'now <= tonumber(expires)',
  ]),
  lua('begin', 'a replay takes a failure for a success', ["finished == 'c' and", 'true and']),
  lua('begin', 'a replay lacks the note', ["or ' failed') .. mark", "or ' failed')"]),
  lua('begin', 'a replay is the head of a longer record', [
    "} or redis.call('GET', KEYS[1])\n",
    '} or value\n',
  ]),
  lua('begin', 'a replay with a longer head takes a failure for a success', [
    "(state == 'c' and",
    '(true and',
  ]),
  lua('begin', 'a replay with a longer head lacks the note', ["' failed') .. note", "' failed')"]),
  lua('begin', 'a record in progress is not read whole', [" or state == 'p'", '']),
  lua('begin', 'another request with the same key is not detected', [
    'elseif fingerprint ~= ARGV[3] then',
    'elseif false then',
  ]),
  lua('begin', 'a released attempt can begin again', [
    'if mine then return',
    'if false then return',
  ]),
  lua('begin', 'a lease lasts a millisecond longer', [
    'if clamped > now then',
    'if clamped >= now then',
  ]),
  lua('begin', 'a lease too far ahead is not clamped', [
    'math.min(leaseUntil, now + leaseMs)',
    'leaseUntil',
  ]),
  lua('begin', 'the clamped lease is not stored', [
    'if clamped < leaseUntil then',
    'if false then',
  ]),
  lua('begin', 'notAfter is the first millisecond that is too late', [
    'now > tonumber(ARGV[6])',
    'now >= tonumber(ARGV[6])',
  ]),
  lua('begin', 'notAfter does not hold for a record that does not exist', [
    `${ABSENT}if ARGV[6] ~= '0' and`,
    `${ABSENT}if false and`,
  ]),
  lua('begin', 'notAfter is too late itself for a record that does not exist', [
    `${ABSENT}if ARGV[6] ~= '0' and now >`,
    `${ABSENT}if ARGV[6] ~= '0' and now >=`,
  ]),
  lua('begin', 'the first fence lacks the zeros of its microseconds', [
    'if #us < 6 then',
    'if false then',
  ]),
  lua('begin', 'a new record outlives its retention', ["ARGV[4], 'NX'", "ARGV[4] + 1, 'NX'"]),
  lua('begin', 'the note of a new record is lost', ["(ARGV[9] and ' ' .. ARGV[9] or '')", "''"]),
  lua('begin', 'a new record loses its origin', [
    "'\\n= ' .. ARGV[5]",
    "'\\n= ' .. string.match(ARGV[5], '^.* ') .. '-'",
  ]),
  lua('begin', 'a takeover without a note loses the earlier one', [
    'ARGV[9] or note\n',
    "ARGV[9] or ''\n",
  ]),
  lua('begin', 'an expired record leaves its note behind', [
    "attempt, takeovers, note = '1', '0', ''",
    "attempt, takeovers, note = '1', '0', note or ''",
  ]),
  lua('begin', 'what it replaces is not written', [
    "if ARGV[9] and state and string.sub(written, -1) == '<'",
    'if false',
  ]),
  lua('begin', 'what a first attempt replaces is written', [
    'ARGV[9] and state and',
    'ARGV[9] and fence and',
  ]),
  lua('begin', 'a note that asks for nothing gets what it replaces', [
    "string.sub(written, -1) == '<'",
    'true',
  ]),
  lua('begin', 'a released attempt looks like one that was taken over', [
    "(state == 'r' and 'r' or 'i')",
    "'i'",
  ]),
  lua('begin', 'the attempts before that are lost', ["(string.match(note, '<.*$') or '')", "''"]),
  lua('begin', 'the whole note of what it replaces is written', ["'^ ?([^;]*)'", "'^ ?(.*)'"]),
  lua('begin', 'a note is cut too late', ['1, 241', '1, 242']),
  lua('begin', 'a takeover does not reply the earlier note', [
    "(kind == ' takeover ' and note or '')",
    "''",
  ]),
  lua('begin', 'a renewed lease counts from another instant', [
    `${INSTANT} .. ' ' .. lease`,
    "time[1] .. time[2] .. ' ' .. lease",
  ]),
  lua('begin', 'the fence comes from the clock alone', [
    'math.max((fence or 0) + 1, nowUs)',
    'nowUs',
  ]),
  lua('begin', 'a takeover is not counted', ['takeovers + 1', 'takeovers']),
  lua('begin', 'the lease reaches beyond the hard deadline', [
    'leaseUntil = math.min(since + leaseMs, deadline)',
    'leaseUntil = since + leaseMs',
  ]),
  lua('begin', 'a large number loses its last digits', [
    "string.format('%.0f', math.max((fence or 0) + 1, nowUs))",
    'tostring(math.max((fence or 0) + 1, nowUs))',
  ]),
  lua('begin', 'a record still exists in the millisecond of its expiry', [
    'expiresAt <= now',
    'expiresAt < now',
  ]),
  withoutMemory('begin', 'a harmless write comes first, after which Redis rejects none', [
    ABSENT,
    `${ABSENT}redis.call('PEXPIREAT', KEYS[1], now + ARGV[4])\n  `,
  ]),
  withoutMemory('begin', 'a harmless write precedes that of a takeover', [
    "fence = string.format('%.0f', math.max",
    "redis.call('PEXPIREAT', KEYS[1], now + ARGV[4])\nfence = string.format('%.0f', math.max",
  ]),
  withoutMemory('begin', 'it may write without memory', [FIRST_LINE, ALLOW_OOM + FIRST_LINE]),
  lua('extend', 'the heartbeat is an unconditional PEXPIRE', [
    "if state ~= 'p' then",
    "if state ~= 'p' then redis.call('PEXPIREAT', KEYS[1], now + ARGV[4])",
  ]),
  lua('extend', 'the owner is not compared', ['if not held', 'if false']),
  lua('extend', 'the fence is not compared', HELD_BY_TOKEN),
  lua('extend', 'a hung attempt can extend its lease', [
    'if now >= deadline then',
    'if false then',
  ]),
  lua('extend', 'the hard deadline comes a millisecond later', [
    'now >= deadline',
    'now > deadline',
  ]),
  lua('extend', 'the hard deadline moves with the lease', ['deadline - now', 'deadline - since']),
  lua('extend', 'a passed hard deadline is not read', ['(%-?%d+)', '(%d+)']),
  lua('extend', 'the note is lost', ['string.sub(value, 1, rest - 1)', `'2p' .. ${WITHOUT_NOTE}`]),
  ...rejectedWithoutMemory('extend'),
  lua('complete', 'its fast path does not compare the owner', [
    OWN_RECORD,
    "string.sub(value, 1, #string.match(ARGV[2], '^%S+ ')) == string.match(ARGV[2], '^%S+ ')",
  ]),
  lua('complete', 'its fast path does not compare the fence', [
    OWN_RECORD,
    "string.match(value, '^2p%d+( %S+ )') == string.match(ARGV[2], ' %S+ ')",
  ]),
  lua('complete', 'its fast path is never late', ['nowUs - fence < 999000', 'true']),
  lua('complete', 'its fast path ends a lease a millisecond later', ['< 999000', '< 1000000']),
  lua('complete', 'its fast path ignores a short lease', ['= %d%d%d%d+', '= %d+']),
  lua('complete', 'its fast path ignores a near hard deadline', [
    '= %d%d%d%d+ %d%d%d%d+',
    '= %d%d%d%d+ %d+',
  ]),
  lua('complete', 'its fast path writes over an expired record', ["%d%d%d%d+ %S'", "%d+ %S'"]),
  lua('complete', 'its fast path counts an extended lease from the fence', ['= %d', '%S+ %d']),
  lua('complete', 'its fast path loses the note', ['kind = first', `kind = ${WITHOUT_NOTE}`]),
  lua('complete', 'its own note is lost', ["ARGV[9] and kind ~= ' restored'", 'false']),
  lua('complete', 'its own note replaces that of begin', ['(ARGV[9] .. note, 1', '(ARGV[9], 1']),
  lua('complete', 'a restored record gets its own note', ["kind ~= ' restored' and ", '']),
  lua('complete', "another attempt's tombstone gets its own note", [
    "string.sub(value, 2, 2) == 'p' then\n  local",
    'true then\n  local',
  ]),
  lua('complete', 'a note is cut too late', ['1, 240', '1, 241']),
  lua('complete', 'the owner is not compared', ['if not held', 'if false']),
  lua('complete', 'the fence is not compared', HELD_BY_TOKEN),
  lua('complete', 'an attempt without a fence is never on time', [
    "kind = now < leaseUntil and ' ok' or ' ok_late'",
    "kind = ' ok_late'",
  ]),
  lua('complete', 'an outcome is replaced by its own copy', [
    "elseif mine then\n    redis.call('PEXPIREAT', KEYS[1], expiresAt)\n    return nonce .. ' already'",
    "elseif mine then\n    kind, line = ' ok', string.sub(value, 3, rest - 1)",
  ]),
  lua('complete', 'an outcome with another fingerprint is returned', [
    'if fingerprint ~= content then',
    'if false then',
  ]),
  lua('complete', 'an outcome is never returned', [
    'if fingerprint ~= content then',
    'if true then',
  ]),
  lua('complete', 'a late failure of another attempt is accepted', [
    "mine or ARGV[3] == 'f'",
    'mine',
  ]),
  lua('complete', 'a failure is restored', ["'report' or ARGV[3] == 'f'", "'report'"]),
  lua('complete', 'a late success lowers the fence', ['math.max(fence, ownFence)', 'ownFence']),
  lua('complete', 'a late success loses the note', ['content .. note', 'content']),
  lua('complete', 'an outcome that it returns is the head of a longer record', [
    'if #value == 512 then readAll() end\n',
    '',
  ]),
  lua('complete', 'a restored outcome lowers the fence', ['math.max(fence or 0, own)', 'own']),
  lua('complete', 'the expiry lacks the zeros of its lower half', ['%d%06d', '%d%d']),
  lua('complete', "the outcome's retention is ignored", ['now + ARGV[4]', 'now + ARGV[4] + 1']),
  ...rejectedWithoutMemory('complete'),
  large('begin', 'a large record has the first line of any', [
    "string.match(value, '^[^\\n]*\\n[^\\n]*\\n')",
    "string.match(value, '^[^\\n]*\\n')",
  ]),
  large('complete-large', 'the first line is not compared', [
    "string.sub(redis.call('GETRANGE', KEYS[2], 0, #line + 15), 3) ~= line .. '0000000000000\\n'",
    "redis.call('EXISTS', KEYS[2]) == 0",
  ]),
  large('complete-large', 'only the first letter of the record is compared', [
    "'^2p(((%d+) %S+ %S+ %S+ %S+) ?(%S*)\\n)([=%d]%d*) (%d+) (%-?%d+) (%d+) %S'",
    "'^2.(((%d+) %S+ %S+ %S+ %S+) ?(%S*)\\n)([=%d]%d*) ?(%d*) ?(%-?%d*) ?(%d*)'",
  ]),
  large('complete-large', 'its own note is another one', [
    'string.sub(ARGV[4] .. note, 1, 240)',
    "string.rep('x', 240)",
  ]),
  large('complete-large', 'the note of begin is lost', ['ARGV[4] .. note', 'ARGV[4]']),
  large('complete-large', 'its own note stands a byte too late', ['#head + 3', '#head + 4']),
  large('complete-large', 'it writes over an expired record', [
    'now >= since + retention',
    'false',
  ]),
  large('complete-large', 'a record exists in the millisecond of its expiry', [
    'now >= since + retention',
    'now > since + retention',
  ]),
  large('complete-large', 'an extended lease counts from the fence', [
    "since == '=' and",
    'true and',
  ]),
  large('complete-large', 'a staged record is left', ["redis.call('UNLINK', KEYS[2])\n", '']),
  large('complete-large', "the outcome's retention is ignored", [
    'now + ARGV[2]',
    'now + ARGV[2] + 1',
  ]),
  large('complete-large', 'the expiry stays zero', [
    "redis.call('SETRANGE', KEYS[2], #line + 2, at)\n",
    '',
  ]),
  large('complete-large', 'the expiry stays that of the staged record', [
    "redis.call('PEXPIREAT', KEYS[2], at)\nlocal",
    'local',
  ]),
  large('complete-large', 'a lease ends a millisecond later', [
    'now < since + math.min(lease, maxExecution)',
    'now <= since + math.min(lease, maxExecution)',
  ]),
  large('complete-large', 'the hard deadline is ignored', [
    'math.min(lease, maxExecution)',
    'lease',
  ]),
  large('complete-large', 'it is never late', ["' ok_late'", "' ok'"]),
  lua('release', 'the record is deleted', [
    "redis.call('SET', KEYS[1], record, 'PXAT', at)",
    "redis.call('DEL', KEYS[1])",
  ]),
  lua('release', 'an outcome can be released', ["if state ~= 'p' then", "if state == 'r' then"]),
  lua('release', 'another attempt can release', [
    "if not mine then return nonce .. ' lost' end",
    'held = held or not mine',
  ]),
  lua('release', 'the fence is not compared', HELD_BY_TOKEN),
  lua('release', 'the note is lost', ["fingerprint .. note .. '\\n'", "fingerprint .. '\\n'"]),
  lua('release', 'its own note is lost', ['if ARGV[5] then', 'if false then']),
  lua('release', 'its own note replaces that of begin', [' .. string.sub(note, 2)', '']),
  ...rejectedWithoutMemory('release'),
  lua('inspect', 'an outcome that it returns is the head of a longer record', [
    'if #value == 512 then readAll() end\n',
    '',
  ]),
  lua('inspect', 'it returns a lease that is not clamped', [
    'math.min(leaseUntil, now + leaseMs)',
    'leaseUntil',
  ]),
  lua('inspect', 'the head of a finished record has its outcome', [
    'if ARGV[2] then',
    'if false then',
  ]),
  lua('amend', 'the fence that the operator saw is not compared', [
    'state .. fence ~= ARGV[3]',
    'state ~= string.sub(ARGV[3], 1, 1)',
  ]),
  lua('amend', 'a copy of the command is not recognised', [
    'if token == ARGV[2] then',
    'if false then',
  ]),
  lua('amend', 'it settles what is finished', ["finished ~= (change == 'k')", 'false']),
  lua('amend', 'a running lease does not refuse', ["ARGV[5] ~= 'yes'", 'false']),
  lua('amend', 'a lease too far ahead is not clamped', [
    'math.min(leaseUntil, now + leaseMs)',
    'leaseUntil',
  ]),
  lua('amend', 'a lease lasts a millisecond longer', ['if clamped > now', 'if clamped >= now']),
  lua('amend', 'notBefore is a millisecond too early itself', [
    'now < notBefore',
    'now <= notBefore',
  ]),
  lua('amend', "an owner's fence still fits", ['fence + 1)', 'fence)']),
  lua('amend', "an owner's token still fits", ['token, fence = ARGV[2],', 'token, fence = token,']),
  lua('amend', 'no takeover is counted', [
    "if change == 'r' then takeovers",
    'if false then takeovers',
  ]),
  lua('amend', 'a long outcome is cut', [
    'if #value == 512 then readAll() end\n  outcome',
    'outcome',
  ]),
  lua('amend', 'the retention of a kept outcome starts anew', [
    'local at = expiresAt',
    'local at = now',
  ]),
  lua('amend', 'the note of the command is lost', ["if ARGV[6] ~= '' then", 'if false then']),
  ...rejectedWithoutMemory('amend'),
];

export const SQL_MISTAKES: readonly Mistake[] = [
  sql('begin', 'the lease reaches beyond the hard deadline', [
    'least($4::bigint, $5::bigint)',
    '$4::bigint',
  ]),
  sql('begin', 'it acquires after notAfter', ['< to_timestamp($7', '<> to_timestamp($7']),
  sql('begin', 'the note is not stored', ['$8::text, $9::text', '$8::text, NULL']),
  sql('begin', 'an existing record is returned without its note', [`'#' || note`, 'NULL']),
  sql('acquire', 'the fence comes from the clock alone', [
    'greatest(record.fence + 1,',
    'greatest(0,',
  ]),
  sql('acquire', 'a takeover is not counted', ['record.takeovers + 1', 'record.takeovers']),
  sql('acquire', 'the counters of an expired record are carried over', [
    `attempt = CASE how WHEN 'expired' THEN 1`,
    `attempt = CASE how WHEN 'never' THEN 1`,
  ]),
  sql('acquire', 'a takeover without a note loses the earlier one', [
    `'expired' THEN earlier_note`,
    `'expired' THEN NULL`,
  ]),
  sql('acquire', 'the note of an expired record is carried over', [`<> 'expired'`, `<> 'never'`]),
  sql('acquire', 'what it replaces is not written', [`right($9::text, 1) = '<'`, 'false']),
  sql('acquire', 'what an expired record was is written', [
    `WHEN how <> 'expired' AND right`,
    'WHEN right',
  ]),
  sql('acquire', 'the attempts before that are lost', [
    `substring(earlier_note FROM '<.*$')`,
    'NULL',
  ]),
  sql('acquire', 'the whole note of what it replaces is written', [
    `split_part(earlier_note, ';', 1)`,
    'earlier_note',
  ]),
  sql('acquire', 'a takeover returns its own note', [
    `'abandoned' THEN earlier_note`,
    `'abandoned' THEN record.note`,
  ]),
  sql('renew', 'the lease reaches beyond the hard deadline', [
    'deadline)',
    "deadline + interval '1 hour')",
  ]),
  sql('clamp', 'the clamped lease is not stored', ["state = 'in_progress'", 'false']),
  sql('extend', 'the owner is not compared', ['token = $2::text', 'true']),
  sql('extend', 'the fence is not compared', ['fence = $3::bigint', 'true']),
  sql('extend', 'an expired lease is extended like a live one', [`lease_until > ${NOW}`, 'true']),
  sql('complete', 'the owner is not compared', ['token = $2::text', 'true']),
  sql('complete', 'the fence is not compared', ['fence = $3::bigint', 'true']),
  sql('complete', 'the record still exists in the millisecond of its expiry', [
    `expires_at > ${NOW}`,
    `expires_at >= ${NOW}`,
  ]),
  sql('complete', 'an outcome is replaced', ["state = 'in_progress'", "state <> 'released'"]),
  sql('complete', "the outcome's retention is ignored", ['$5::bigint *', '($5::bigint + 1) *']),
  sql('complete', 'the note is lost', ['coalesce(left($8', 'nullif(left($8']),
  sql('complete', 'its own note is lost', [
    `coalesce(left($8::text || coalesce(note, ''), 240), note)`,
    'note',
  ]),
  sql('complete-released', 'a late success lowers the fence', [
    'greatest(fence, $3::bigint)',
    '$3::bigint',
  ]),
  sql('complete-released', 'the fingerprint stays that of the other attempt', [
    'fingerprint = $5::text',
    'fingerprint = fingerprint',
  ]),
  sql('restore', 'a success is restored as a failure', ["'completed'", "'failed'"]),
  sql('restore', 'a restored outcome lowers the fence', [
    'greatest(record.fence, excluded.fence)',
    'excluded.fence',
  ]),
  sql('restore', 'the note of an expired record is kept', ['note = NULL', 'note = record.note']),
  sql('release', 'an outcome can be released', ["state = 'in_progress'", 'true']),
  sql('release', 'the note is lost', ['coalesce(left($5', 'nullif(left($5']),
  sql('release', 'its own note replaces that of begin', ["|| coalesce(note, '')", "|| ''"]),
  sql('release', 'another attempt can release', ['token = $2::text', 'true']),
  sql('release', 'the fence is not compared', ['fence = $3::bigint', 'true']),
  sql('read', 'it returns no note', [`'#' || note`, 'NULL']),
  sql('read', 'it returns an expiry that is off by a second', [
    'extract(epoch FROM expires_at)',
    'extract(epoch FROM expires_at) + 1',
  ]),
  sql('list', 'the note is not shown', [`'#' || note`, 'NULL']),
  sql('amend', 'a lease lasts a millisecond longer', [`<= ${NOW}`, `< ${NOW}`]),
  sql('amend', "an owner's fence still fits", ['THEN fence + 1', 'THEN fence']),
  sql('amend', "an owner's token still fits", ['THEN $2::text', 'THEN token']),
  sql('amend', 'no takeover is counted', ['takeovers + $9::integer', 'takeovers']),
  sql('amend', 'the retention of a kept outcome starts anew', [', expires_at),', `, ${NOW}),`]),
  sql('amend', 'the note of the command is lost', ['coalesce($11::text, note)', 'note']),
  sql('amend', 'a kept outcome is replaced', [
    'coalesce($13::bytea, outcome_body)',
    "coalesce($13::bytea, '')",
  ]),
];

/** Both forms of a script that a running attempt needs. */
function rejectedWithoutMemory(script: string): LuaMistake[] {
  const what = 'without memory it is rejected';
  return [
    withoutMemory(script, `${what}, for want of the flag`, [ALLOW_OOM, '']),
    withoutMemory(
      script,
      `${what}, for want of a harmless write before`,
      [HARMLESS_WRITE, ''],
      ['flags'],
    ),
  ];
}

function withoutMemory(
  script: string,
  mistake: string,
  change: readonly [string, string],
  further: readonly Missing[] = [],
): LuaMistake {
  return { ...lua(script, mistake, change), without: ['memory', ...further] };
}

function large(script: string, mistake: string, change: readonly [string, string]): LuaMistake {
  return { ...lua(script, mistake, change), isLarge: true };
}

function lua(script: string, mistake: string, change: readonly [string, string]): Mistake {
  return { ...planted(`${script}.lua`, mistake, 'differential'), mutate: mutation(script, change) };
}

function sql(statement: string, mistake: string, change: readonly [string, string]): Mistake {
  return {
    ...planted(`${statement}.sql`, mistake, 'postgres'),
    mutate: mutation(statement, change),
  };
}

function planted(file: string, mistake: string, suite: string): PlantedMistake {
  return {
    mistake: `${file}: ${mistake}`,
    suite: `test/integration/differential/${suite}.test.ts`,
    objection: 'Store and reference differ',
  };
}

function mutation(name: string, [original, changed]: readonly [string, string]): Mutation {
  return (file, text) => {
    if (file !== name) return text;
    const at = text.lastIndexOf(original);
    if (at === -1) throw new Error(`${name} does not contain: ${original}`);
    return text.slice(0, at) + changed + text.slice(at + original.length);
  };
}
