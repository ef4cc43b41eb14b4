import { resolve } from 'node:path';

/** The folder that holds package.json. */
export const projectRoot = resolve(import.meta.dirname, '../..');
