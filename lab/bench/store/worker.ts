import { Redis } from 'ioredis';
import { closedLoop } from '../measuring/closed-loop.js';
import { serve } from '../../../test/support/processes/child.js';
import type { Sample } from '../measuring/interleave.js';
import { ROUND, type StoreEntrant, type StoreRound } from '../protocol.js';
import { KEY_PREFIX, rawTasks, scriptTasks, storeTasks, type Tasks, type Via } from './tasks.js';

/** How many keys are replayed in rotation. */
const KNOWN_KEYS = 64;
const DELETED_AT_ONCE = 5_000;

const entrant = JSON.parse(process.env.BENCH_ENTRANT ?? '') as StoreEntrant;
const connections = new Map<string, Promise<Tasks>>();
// Keys of one entrant are never those of another, nor of an earlier run of it.
const base = process.pid.toString(36).padStart(8, '0') + Date.now().toString(36).padStart(9, '0');
let keys = 0;
let deleted = 0;

serve({ [ROUND]: round, deleteLatest, close });

async function round({
  task,
  via,
  bytes,
  inFlight,
  ms,
  atMost = Infinity,
}: StoreRound): Promise<Sample> {
  const tasks = await tasksVia(via);
  // JSON, as most answers are: `x` over and over is what Redis would compress when it saves.
  const body = Buffer.alloc(bytes, '{"id":"0123456789","amount":1990},');
  if (task === 'pair') {
    return closedLoop(() => tasks.pair(newKey(), body), { inFlight, ms, atMost });
  }
  const known = Array.from({ length: KNOWN_KEYS }, newKey);
  for (const key of known) await tasks.pair(key, body);
  let next = 0;
  return closedLoop(() => tasks.replay(known[(next += 1) % KNOWN_KEYS]!, body), { inFlight, ms });
}

/** Deletes what has been written since the last time, from the server behind `url`. */
async function deleteLatest(url: string): Promise<void> {
  const client = new Redis(url);
  while (deleted < keys) {
    const names = Array.from(
      { length: Math.min(keys - deleted, DELETED_AT_ONCE) },
      () => KEY_PREFIX + nameOf((deleted += 1)),
    );
    await client.del(names);
  }
  client.disconnect();
}

async function close(): Promise<void> {
  for (const tasks of connections.values()) await (await tasks).close();
}

function newKey(): string {
  return nameOf((keys += 1));
}

/** As long as a digest. */
function nameOf(number: number): string {
  return base + number.toString(36).padStart(43 - base.length, '0');
}

function tasksVia(via: Via): Promise<Tasks> {
  const name = JSON.stringify(via);
  const opened = connections.get(name) ?? open(via);
  connections.set(name, opened);
  return opened;
}

async function open(via: Via): Promise<Tasks> {
  switch (entrant.kind) {
    case 'store': {
      const { library, client } = entrant;
      if (client === undefined) return storeTasks(library, via);
      const { clientStoreTasks } = await import('./clients.js');
      return clientStoreTasks(library, client, via);
    }
    case 'by-hand': {
      const { byHandTasks } = await import('./clients.js');
      return byHandTasks(entrant.client, via);
    }
    case 'raw':
      return rawTasks(via);
    case 'scripts':
      return scriptTasks(via);
  }
}
