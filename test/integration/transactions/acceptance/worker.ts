import { adapterNames, adapterOf } from '../adapters/index.js';
import { startEffectsApp } from './effects-app.js';

const CONNECTIONS = 4;

/** A process with an application for each adapter, on the database of the given URL. */
const [, , url] = process.argv;
process.on('disconnect', () => process.exit());
const ports = await Promise.all(
  adapterNames.map(async (name) => {
    const opened = await adapterOf(name).open(url!, CONNECTIONS);
    return [name, await startEffectsApp(url!, opened)];
  }),
);
process.send!({ ports: Object.fromEntries(ports) });
