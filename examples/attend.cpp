// attend.cpp: a plan, its forward and its backward pass from C++17.
//
//     c++ -std=c++17 attend.cpp $(pkg-config --cflags --libs flashcore) -o attend && ./attend
#include <flashcore.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

struct Destroy {
    void operator()(fc_context *context) const
    {
        fc_context_destroy(context);
    }
    void operator()(fc_plan *plan) const
    {
        fc_plan_destroy(plan);
    }
};
using Context = std::unique_ptr<fc_context, Destroy>;
using Plan = std::unique_ptr<fc_plan, Destroy>;

static void check(fc_status status)
{
    if (status != FC_OK)
        throw std::runtime_error(fc_last_error());
}

static Context make_context()
{
    fc_context *context = nullptr;
    check(fc_context_create(nullptr, &context));
    return Context(context);
}

static Plan make_plan(const Context &context, const fc_attention &problem)
{
    fc_plan *plan = nullptr;
    check(fc_plan_create(context.get(), &problem, &plan));
    return Plan(plan);
}

// The caller owns the workspace. An array of these is aligned as the library wants it.
struct alignas(FC_WORKSPACE_ALIGNMENT) WorkspaceBlock {
    unsigned char bytes[FC_WORKSPACE_ALIGNMENT];
};

static std::vector<WorkspaceBlock> make_workspace(const Plan &plan, fc_direction direction)
{
    const size_t bytes = fc_plan_workspace_bytes(plan.get(), direction);
    return std::vector<WorkspaceBlock>((bytes + sizeof(WorkspaceBlock) - 1) /
                                       sizeof(WorkspaceBlock));
}

static void lend(fc_buffers &buffers, std::vector<WorkspaceBlock> &workspace)
{
    buffers.workspace = workspace.data();
    buffers.workspace_bytes = workspace.size() * sizeof(WorkspaceBlock);
}

static std::vector<float> random_tensor(size_t elements)
{
    static std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    std::vector<float> values(elements);
    for (float &value : values)
        value = normal(generator);
    return values;
}

static int run()
{
    fc_attention problem = fc_attention_init();
    problem.batch = 2;
    problem.q_heads = 4;
    problem.kv_heads = 2; // two query heads share a KV head
    problem.q_length = 17;
    problem.kv_length = 23;
    problem.head_dim = 32;
    problem.q_type = FC_F32;
    const size_t q_elements = 2 * 4 * 17 * 32, kv_elements = 2 * 2 * 23 * 32;

    const Context context = make_context();
    const Plan plan = make_plan(context, problem);
    std::printf("forward: %s, backward: %s\n", fc_plan_kernel(plan.get(), FC_FORWARD),
                fc_plan_kernel(plan.get(), FC_BACKWARD));

    const auto q = random_tensor(q_elements), dout = random_tensor(q_elements);
    const auto k = random_tensor(kv_elements), v = random_tensor(kv_elements);
    std::vector<float> out(q_elements), lse(2 * 4 * 17);
    std::vector<float> dq(q_elements), dk(kv_elements), dv(kv_elements);

    fc_buffers buffers = fc_buffers_init();
    buffers.q = q.data();
    buffers.k = k.data();
    buffers.v = v.data();
    buffers.out = out.data();
    buffers.lse = lse.data(); // the backward pass needs it
    auto forward_workspace = make_workspace(plan, FC_FORWARD);
    lend(buffers, forward_workspace);
    check(fc_plan_forward(plan.get(), &buffers, nullptr));

    fc_gradients gradients = fc_gradients_init();
    gradients.dout = dout.data();
    gradients.dq = dq.data();
    gradients.dk = dk.data();
    gradients.dv = dv.data();
    auto backward_workspace = make_workspace(plan, FC_BACKWARD);
    lend(buffers, backward_workspace);
    check(fc_plan_backward(plan.get(), &buffers, &gradients, nullptr));

    // The weights of a row add up to one, so that dV holds as much as dOut does.
    double dout_sum = 0, dv_sum = 0;
    for (float value : dout)
        dout_sum += value;
    for (float value : dv)
        dv_sum += value;
    std::printf("lse[0] = %f, sum of dOut = %f, sum of dV = %f\n", lse[0], dout_sum, dv_sum);
    return std::abs(dout_sum - dv_sum) < 1e-3 ? 0 : 1;
}

int main()
{
    try {
        return run();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
