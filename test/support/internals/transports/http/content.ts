export { fastifyForm } from '../../../../../lib/transports/http/content/fastify-form.js';
export { formContent } from '../../../../../lib/transports/http/content/form-content.js';
export type { ParsedRequest } from '../../../../../lib/transports/http/content/form.js';
export { multerForm } from '../../../../../lib/transports/http/content/multer-form.js';
export { contentOf } from '../../../../../lib/transports/http/content/request-content.js';
export { requestFingerprint } from '../../../../../lib/transports/http/content/request-fingerprint.js';
