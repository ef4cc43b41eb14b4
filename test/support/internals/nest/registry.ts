export { callRoute } from '../../../../lib/nest/calls/call-route.js';
