import { register } from 'node:module';

// `node --import …/no-graphql.mjs` runs without the GraphQL packages.
const hooks = `
export function resolve(specifier, context, next) {
  if (/^(graphql|@nestjs\\/(graphql|apollo)|@apollo)(\\/|$)/.test(specifier)) {
    throw new Error(specifier + ' is not installed');
  }
  return next(specifier, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
