/** `npm run lab -- VERB [arguments]`: what measures, troubles and models the library. */
import { spawnSync } from 'node:child_process';
import { projectRoot } from '../test/support/project-root.js';

interface Verb {
  readonly summary: string;
  /** Its program, which reads what follows the verb as its own arguments. */
  readonly program: string;
  /** Servers that have to be installed, as `npm run provision` calls them. */
  readonly servers?: readonly string[];
  /** Programs that it can do without. */
  readonly helpers?: readonly string[];
}

const VERBS: Readonly<Record<string, Verb>> = {
  'after-effect': {
    summary:
      'what retries come to after an effect, beside other packages: a death, a timeout, an outage',
    program: 'after-effect/main.ts',
    servers: ['redis'],
  },
  bench: {
    summary: 'what the library costs, beside others; its budget',
    program: 'bench/main.ts',
    servers: ['redis'],
    helpers: ['wrk'],
  },
  'bench check': {
    summary: 'the same of two commits: --base REV [--head REV]',
    program: 'bench/check.ts',
    servers: ['redis'],
    helpers: ['wrk'],
  },
  'bench counts': {
    summary: 'bytes, promises and instructions of a request, held against what was recorded',
    program: 'bench/counted/main.ts',
    servers: ['redis', 'valgrind'],
  },
  'bench profile': {
    summary: 'where the CPU of a request goes',
    program: 'bench/profile.ts',
    servers: ['redis'],
  },
  'bench postgres': {
    summary: 'the PostgreSQL store, beside statements by hand',
    program: 'measure/postgres/main.ts',
  },
  chaos: {
    summary: 'load and faults on worker processes, judged by an oracle',
    program: 'chaos/main.ts',
    servers: ['redis'],
  },
  'chaos messages': {
    summary: 'the same with messages, consumers and RabbitMQ',
    program: 'chaos/messages/main.ts',
    servers: ['redis', 'rabbitmq'],
  },
  'measure growth': {
    summary: 'a million requests, and what is left of them in the process',
    program: 'measure/growth/main.ts',
    servers: ['redis'],
  },
  'measure journal': {
    summary: 'the CPU time that the journal adds in the server to a first request',
    program: 'measure/journal/main.ts',
    servers: ['redis'],
  },
  'measure large': {
    summary: 'records moved by scripts, beside SET and GET, by their size',
    program: 'measure/large/main.ts',
    servers: ['redis'],
  },
  'measure records': {
    summary: 'to find one record among a million, by its key and by a pass over all',
    program: 'measure/records/main.ts',
    servers: ['redis'],
  },
  'measure streams': {
    summary: 'a large body stored and sent again, beside the same by hand',
    program: 'measure/streams/main.ts',
  },
  'measure telemetry': {
    summary: 'the CPU time that telemetry adds to a request',
    program: 'measure/telemetry/main.ts',
  },
  'measure waiting': {
    summary: 'a thousand duplicates that wait, beside a bare route',
    program: 'measure/waiting/main.ts',
    servers: ['redis'],
  },
  model: {
    summary: 'every state of a small model of the protocol',
    program: './model/main.ts',
    servers: ['spin', 'c-compiler'],
  },
  simulate: {
    summary: 'the whole engine in virtual time, with every fault, by one seed',
    program: 'simulate/main.ts',
  },
  'simulate mistakes': {
    summary: 'whether that notices mistakes that are planted in the library',
    program: 'simulate/mistakes/main.ts',
  },
  walk: {
    summary: 'the files of lib in which a function runs during one request',
    program: 'walk/main.ts',
    servers: ['redis', 'rabbitmq'],
  },
};

const args = process.argv.slice(2);
const [first = '', second = '-'] = args;
// `bench chek` is not a benchmark, but `model crash` is a model.
const isLonger = !second.startsWith('-') && Object.keys(VERBS).some(isBelow);
const name = [`${first} ${second}`, ...(isLonger ? [] : [first])].find((verb) => verb in VERBS);
if (name === undefined) {
  const wantsHelp = args.length === 0 || args[0] === '--help';
  if (!wantsHelp) console.error(`There is no "${args.slice(0, 2).join(' ')}".\n`);
  console.log(usage());
  process.exitCode = wantsHelp ? 0 : 2;
} else {
  await run(VERBS[name]!, args.slice(name.split(' ').length));
}

function isBelow(verb: string): boolean {
  return verb.startsWith(`${first} `);
}

async function run(verb: Verb, own: readonly string[]): Promise<void> {
  const { program, servers = [], helpers = [] } = verb;
  if (!own.includes('--help')) {
    if (servers.length > 0 && !provision(servers)) {
      process.exitCode = 1;
      return;
    }
    if (helpers.length > 0) provision(helpers);
  }
  process.argv.splice(2, Infinity, ...own);
  await import(`./${program}`);
}

function provision(servers: readonly string[]): boolean {
  const { status } = spawnSync('npm', ['run', '--silent', 'provision', '--', ...servers], {
    cwd: projectRoot,
    // What the tool prints may be piped.
    stdio: ['ignore', 2, 2],
  });
  return status === 0;
}

function usage(): string {
  const width = Math.max(...Object.keys(VERBS).map((verb) => verb.length));
  return [
    'npm run lab -- VERB [arguments]; --help after a verb lists its arguments',
    '',
    ...Object.entries(VERBS).map(([verb, { summary }]) => `  ${verb.padEnd(width)}  ${summary}`),
  ].join('\n');
}
