import { parseArgs } from 'node:util';
import { startRabbitMq } from '../../test/support/rabbitmq/rabbitmq-server.js';
import { fromCommandLine } from '../command-line.js';
import { TRIPS } from './trip.js';
import { walk } from './walk.js';

const USAGE = `npm run lab -- walk [--moves]

  --moves    the functions in the order in which they are entered, and how often the reader goes to another file

  What it prints is the same each time: run it in two checkouts, and compare with diff.`;

const { values } = fromCommandLine(USAGE, (args) =>
  parseArgs({ args: [...args], options: { moves: { type: 'boolean', default: false } } }),
);
const broker = await startRabbitMq();
const table: Record<string, Record<string, number | undefined>> = {};
try {
  for (const trip of TRIPS) {
    const { files, way, ...counts } = await walk({ trip, broker });
    const { entries, ...moves } = way;
    const lines = values.moves ? entries.map(({ file, name }) => `${file} ${name}`.trim()) : files;
    console.log(`${[trip, ...lines].join('\n  ')}\n`);
    table[trip] = { files: files.length, ...counts, ...(values.moves ? moves : {}) };
  }
} finally {
  await broker.stop();
}
console.table(table);
