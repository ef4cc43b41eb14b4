/** `npm run example -- NAME`: runs `examples/NAME/main.ts`. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const names = readdirSync(import.meta.dirname).filter((name) =>
  existsSync(join(import.meta.dirname, name, 'main.ts')),
);
const [name = ''] = process.argv.slice(2);
if (names.includes(name)) {
  await import(`./${name}/main.ts`);
} else {
  console.error(`npm run example -- NAME, which is one of ${names.join(', ')}`);
  process.exitCode = 2;
}
