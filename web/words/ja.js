/** @type {Record<string, string | Record<string, string>>} */
export default {};
