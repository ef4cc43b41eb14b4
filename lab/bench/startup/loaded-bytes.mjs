// Prints what an import loads, by the package that it is of.
import { Session } from 'node:inspector/promises';

const session = new Session();
session.connect();
const scripts = [];
session.on('Debugger.scriptParsed', ({ params }) => scripts.push(params));
await session.post('Debugger.enable');
scripts.length = 0;
await import(process.argv[2]);
const own = new URL('.', process.argv[3]).href;
const result = {};
for (const { url, length } of scripts) {
  if (!url.startsWith('file:') && !url.startsWith('/')) continue;
  const path = url.startsWith('/') ? `file://${url}` : url;
  const name = path.startsWith(own)
    ? 'itself'
    : (/.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? 'other');
  const entry = (result[name] ??= { files: 0, bytes: 0 });
  entry.files += 1;
  entry.bytes += length;
}
process.stdout.write(JSON.stringify(result), () => process.exit());
