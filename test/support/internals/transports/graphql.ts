export { fieldKey, headerKey } from '../../../../lib/transports/graphql/field-key.js';
export { comparableArguments } from '../../../../lib/transports/graphql/graphql-call.js';
export type { GraphqlField } from '../../../../lib/transports/graphql/graphql-field.js';
export type { GraphqlRoute } from '../../../../lib/transports/graphql/graphql-route.js';
export { clientDisconnectOf } from '../../../../lib/transports/graphql/graphql-transport.js';
export { toFieldError } from '../../../../lib/transports/graphql/field-error.js';
