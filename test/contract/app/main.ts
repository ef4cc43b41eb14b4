import 'reflect-metadata';
import { createApp } from './create-app.js';
import { openStore } from './open-store.js';
import { FaultyStore } from '../../support/stores/faulty-store.js';
import { Traces } from './traces.js';

// PLATFORM=express|fastify STORE=memory|redis|node-redis|valkey-glide|postgres|mysql|sqlite [REQUEST_PATH=fast|beside|streams] [REDIS_URL=…] [DATABASE_URL=…] [MYSQL_URL=…] [SQLITE_PATH=…] [PORT=…] node main.js
const { PLATFORM = 'express', REQUEST_PATH = 'fast', PORT = '0' } = process.env;

const { store, recordNames, disconnect } = await openStore(process.env);
const app = await createApp({
  platform: PLATFORM === 'fastify' ? 'fastify' : 'express',
  store: new FaultyStore(store),
  fastPath: REQUEST_PATH !== 'streams',
  isBesideOthers: REQUEST_PATH === 'beside',
  traces: new Traces(recordNames),
});
await app.listen(Number(PORT), '127.0.0.1');
console.log(`listening on ${await app.getUrl()}`);

// Started with a channel to its parent, the process does not outlive it.
process.once('disconnect', () => process.exit());
process.once('SIGTERM', () => {
  void app.close().finally(disconnect);
});
