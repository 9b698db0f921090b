/* demo.c: `flashcore demo`: the mission shape on every device that is here. */
#include "device.h"
#include "measure.h"
#include "output.h"
#include "problem.h"
#include "verbs.h"

static const double default_seconds = 2;

typedef struct demo_report {
    int count;
    cli_device devices[CLI_MAX_DEVICES];
    cli_measurement measurements[CLI_MAX_DEVICES];
} demo_report;

static const char *reason_against(const fc_kernel_info *kernel)
{
    return kernel->accepts ? "a kernel before it accepts too" : kernel->reason;
}

/* Neighbours with one reason share a line. */
static void print_refusals(fc_context *context, const fc_attention *problem)
{
    fc_kernel_info first = fc_kernel_info_init();
    int alike = 0;
    for (int index = 0; index <= fc_kernel_count(); index++) {
        fc_kernel_info kernel = fc_kernel_info_init();
        const bool another = fc_kernel_query(context, problem, index, &kernel) == FC_OK;
        if (another && (kernel.direction != FC_FORWARD || kernel.chosen))
            continue;
        if (alike > 0 && another && strcmp(reason_against(&first), reason_against(&kernel)) == 0) {
            alike++;
            continue;
        }
        if (alike == 1)
            printf("  not %s: %s\n", first.name, reason_against(&first));
        else if (alike > 1)
            printf("  not %s and %d more: %s\n", first.name, alike - 1, reason_against(&first));
        first = kernel;
        alike = 1;
    }
}

static void print_measurement(const cli_measurement *measured)
{
    static const char *const verdicts[] = {
        [CHECK_PASSED] = "right", [CHECK_FAILED] = "WRONG", [CHECK_REFUSED] = "refused"};
    char p50[CLI_DURATION_BYTES];
    if (measured->check.kernel != NULL)
        printf("  kernel     %s\n", measured->check.kernel);
    if (measured->timed)
        printf("  time       %s a call (p50 of %zu), %.3g TFLOP/s\n",
               cli_duration(measured->times.p50, p50), measured->times.calls, cli_tflops(measured));
    if (measured->check.kernel != NULL)
        printf("  max error  %.2e against double precision, %.2e allowed\n",
               measured->check.max_error, measured->check.tolerance);
    printf("  verdict    %s%s%s\n", verdicts[measured->check.outcome],
           measured->reason[0] != '\0' ? ": " : "", measured->reason);
}

static void print_head(const fc_attention *problem)
{
    char text[CLI_PROBLEM_TEXT_BYTES] = "";
    cli_problem_text(problem, text);
    printf("FlashCore %s: softmax(Q*K^T*scale)*V for %s, random data\n\n", fc_version(), text);
    fflush(stdout);
}

static void print_next_steps(void)
{
    printf("next:\n"
           "  flashcore run --help    attention over your own .npy files\n"
           "  flashcore kernels       which kernel runs a problem, and why not another\n"
           "  flashcore check         every promise of the library, case by case\n"
           "  flashcore bench         times of more shapes\n");
}

static void write_json(json_writer *json, const void *data)
{
    const demo_report *report = data;
    cli_json_result(json, "demo");
    json_array(json, "devices");
    for (int index = 0; index < report->count; index++) {
        json_object(json, NULL);
        json_text(json, "device", report->devices[index].name);
        if (report->devices[index].context != NULL)
            cli_measurement_json(json, &report->measurements[index]);
        json_end(json);
    }
    json_end(json);
    json_end(json);
}

static void show_device(const cli_device *device, const fc_attention *problem, double seconds,
                        bool as_text, cli_measurement *measurement)
{
    if (as_text)
        printf("%s\n", device->name);
    if (device->context == NULL)
        return;
    cli_progress("  checking and timing...");
    *measurement = (cli_measurement){.problem = *problem};
    cli_measure(device->context, seconds, measurement);
    cli_progress("%s", "");
    if (as_text) {
        print_measurement(measurement);
        print_refusals(device->context, problem);
        printf("\n");
    }
}

/* A device without a kernel for this shape is no failure as long as another one has. */
static bool is_success(const demo_report *report)
{
    bool any_right = false;
    for (int index = 0; index < report->count; index++) {
        const cli_measurement *measured = &report->measurements[index];
        if (report->devices[index].context == NULL)
            continue;
        if (measured->check.outcome == CHECK_FAILED)
            return false;
        any_right = any_right || measured->timed;
    }
    return any_right;
}

int cli_demo(const cli_arguments *arguments)
{
    demo_report report = {0};
    fc_attention problem = cli_problem(arguments);
    bool as_text = cli_wants_text(arguments);
    double seconds = arguments->seconds > 0 ? arguments->seconds : default_seconds;
    if (as_text)
        print_head(&problem);
    report.count = cli_open_devices(&arguments->context, report.devices);
    for (int index = 0; index < report.count; index++)
        show_device(&report.devices[index], &problem, seconds, as_text,
                    &report.measurements[index]);
    if (as_text)
        print_next_steps();
    bool ok = cli_write_json(arguments, write_json, &report) && is_success(&report);
    cli_close_devices(report.devices, report.count);
    return ok ? CLI_OK : CLI_FAILED;
}
