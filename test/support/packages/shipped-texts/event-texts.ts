import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { EVENT_SEVERITY } from '../../internals/core.js';
import { projectRoot } from '../../project-root.js';
import { generatedPage, table } from './markdown.js';
import type { TextModule } from './option-texts.js';

const DOCS = 'docs/reference/events.md';
const SOURCE = 'lib/core/record/events.ts';

/** A comment, and the event of a union that it describes. */
const DESCRIBED =
  /\/\*\*((?:(?!\*\/)[^])*)\*\/\s*(?:\|\s*|export type \w+ = )[^|;]*?\btype: '(\w+)'/g;

/** The page of all events: their names, severities and comments. */
export function eventTexts(): TextModule[] {
  const descriptions = descriptionsOf(readFileSync(join(projectRoot, SOURCE), 'utf8'));
  const rows = Object.entries(EVENT_SEVERITY).map(([type, severity]) => {
    const description = descriptions.get(type);
    if (description === undefined) throw new Error(`The event "${type}" has no description.`);
    return [`\`${type}\``, severity, description];
  });
  return [generatedPage(DOCS, 'events', [table(['Event', 'Severity', 'Meaning'], rows)])];
}

function descriptionsOf(source: string): Map<string, string> {
  return new Map(
    [...source.matchAll(DESCRIBED)].map(([, comment = '', type = '']) => [
      type,
      comment.replace(/\s*\n\s*\*?\s*/g, ' ').trim(),
    ]),
  );
}
