export { fieldKey } from '../../../../lib/transports/graphql/field-key.js';
export { headerKey } from '../../../../lib/transports/graphql/header-key.js';
export { comparableArguments } from '../../../../lib/transports/graphql/comparable-arguments.js';
export type { GraphqlField } from '../../../../lib/transports/graphql/graphql-field.js';
export type { GraphqlRoute } from '../../../../lib/transports/graphql/graphql-route.js';
export { departureOf } from '../../../../lib/transports/graphql/departure.js';
