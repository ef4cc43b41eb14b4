/**
 * `npm run provision -- redis rabbitmq`: installs what tests need. A script, not a test
 * set-up, because it may have to install packages. `npm test` runs it for what the chosen files need.
 *
 * Exits with 1 where they cannot run, with 3 where some of them are left out.
 */
import { programs, type ProgramName } from './programs.js';
import { provide } from './provide.js';

const names = process.argv.slice(2) as ProgramName[];
const isUnknown = names.some((name) => !(name in programs));
if (isUnknown || names.length === 0) {
  console.error(`Which of these? ${Object.keys(programs).join(', ')}`);
  process.exitCode = 1;
} else {
  process.exitCode = { provided: 0, absent: 1, 'left out': 3 }[
    provide(names.map((name) => programs[name]))
  ];
}
