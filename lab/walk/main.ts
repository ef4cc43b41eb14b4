import { parseArgs } from 'node:util';
import { startRabbitMq } from '../../test/support/rabbitmq/rabbitmq-server.js';
import { fromCommandLine } from '../command-line.js';
import { TRIPS } from './trip.js';
import { walk } from './walk.js';

const USAGE = `npm run lab -- walk

  What it prints is the same each time: run it in two checkouts, and compare with diff.`;

fromCommandLine(USAGE, (args) => parseArgs({ args: [...args] }));
const broker = await startRabbitMq();
const table: Record<string, Record<string, number>> = {};
try {
  for (const trip of TRIPS) {
    const { files, ...counts } = await walk({ trip, broker });
    console.log(`${[trip, ...files].join('\n  ')}\n`);
    table[trip] = { files: files.length, ...counts };
  }
} finally {
  await broker.stop();
}
console.table(table);
